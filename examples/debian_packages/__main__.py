"""The packages of a Debian or Ubuntu machine as tables with keys.

    python -m examples.debian_packages FOLDER [--input FILE] [--sections python,perl]

reads what ``apt-cache dumpavail`` prints, or a file of it, and writes ``packages.csv.gz`` and
``dependencies.csv.gz``. The same packages give the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

PACKAGES = ("package", "section", "maintainer", "installed_size", "download_size")
DEPENDENCIES = ("package", "relation", "needs")
RELATIONS = {
    "Pre-Depends": "depends",
    "Depends": "depends",
    "Recommends": "recommends",
    "Suggests": "suggests",
}
Stanza = Mapping[str, str]


def stanzas(lines: Iterable[str]) -> Iterator[Stanza]:
    """Yield the fields of each package; lines that continue a field are left out."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line.strip():
            if fields:
                yield fields
            fields = {}
        elif not line[0].isspace():
            name, _, value = line.partition(":")
            fields[name] = value.strip()
    if fields:
        yield fields


def newest(found: Iterable[Stanza]) -> dict[str, Stanza]:
    """Return one stanza of each package, by name: apt prints its candidate first."""
    packages: dict[str, Stanza] = {}
    for fields in found:
        packages.setdefault(fields["Package"], fields)
    return dict(sorted(packages.items()))


def package_row(fields: Stanza) -> tuple[object, ...]:
    """Return the row of a package; a maintainer is a name without its address."""
    return (
        fields["Package"],
        fields["Section"].rpartition("/")[2],
        fields["Maintainer"].partition("<")[0].strip(' "'),
        fields.get("Installed-Size", ""),
        fields["Size"],
    )


def dependency_rows(fields: Stanza) -> Iterator[tuple[str, str, str]]:
    """Yield package, relation and name of each package that it needs; every alternative counts."""
    found = {
        (relation, re.split(r"[ (:\[]", alternative.strip())[0])
        for field, relation in RELATIONS.items()
        for alternative in re.split(r"[,|]", fields.get(field, ""))
        if alternative.strip()
    }
    yield from ((fields["Package"], *pair) for pair in sorted(found))


def write_table(path: Path, columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> int:
    """Write a table as gzipped CSV, without the time, and return the number of its rows."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    count = 0
    for row in rows:
        writer.writerow(row)
        count += 1
    path.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))
    return count


def write_tables(lines: Iterable[str], folder: Path, sections: set[str]) -> dict[str, int]:
    """Write both tables, of all packages or of those of some sections, and return their numbers of rows."""
    packages = newest(fields for fields in stanzas(lines) if {"Section", "Size"} <= fields.keys())
    rows = [row for row in map(package_row, packages.values()) if not sections or row[1] in sections]
    edges = [row for name, *_ in rows for row in dependency_rows(packages[str(name)])]
    folder.mkdir(parents=True, exist_ok=True)
    return {
        "packages": write_table(folder / "packages.csv.gz", PACKAGES, rows),
        "dependencies": write_table(folder / "dependencies.csv.gz", DEPENDENCIES, edges),
    }


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--input", type=Path, metavar="FILE", help="what 'apt-cache dumpavail' has printed")
    parser.add_argument("--sections", metavar="A,B", default="", help="only packages of these sections")
    given = parser.parse_args(words)
    sections = {name for name in given.sections.split(",") if name}
    if given.input is not None:
        with given.input.open(encoding="utf-8") as stream:
            counts = write_tables(stream, given.folder, sections)
    else:
        done = subprocess.run(["apt-cache", "dumpavail"], stdout=subprocess.PIPE, text=True, check=True)
        counts = write_tables(done.stdout.splitlines(), given.folder, sections)
    if not counts["packages"]:
        sys.exit("no packages: run 'apt-get update' first, or correct --sections")
    print(", ".join(f"{count:,} {name}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
