#!/bin/sh
# Builds the sdist and the wheel of a release into dist/, checks them, and writes the notes. Nothing is uploaded.
set -eu

python=.venv/bin/python
version=$("$python" -c 'import partition_ops; print(partition_ops.__version__)')
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
rm -rf dist
"$python" -m venv "$scratch/tools"
"$scratch/tools/bin/pip" install --quiet hatchling
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
"$scratch/tools/bin/hatchling" build -d dist
"$scratch/tools/bin/pip" wheel --quiet --no-deps --wheel-dir "$scratch" dist/*.tar.gz
cmp dist/*.whl "$scratch"/*.whl || { echo "The source distribution builds another wheel." >&2; exit 1; }
.ci/check_wheel "$python" dist/*.whl .local/pythons/release
awk -v version="$version" '
    /^## / { on = !found && ($2 == version || $2 == "Unreleased"); found = found || on; if (on) next }
    on' CHANGELOG.md >dist/notes.md
echo "dist/ has the release $version:"
ls -l dist
