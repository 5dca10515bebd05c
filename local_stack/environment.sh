#!/bin/sh
# Makes .venv with the locked dependencies ("install"), or renews the lock itself ("lock").
# Plain sh and Python 3.11 are all it needs: it runs before anything is installed.
set -eu

log=.local/logs/install.log
is_311='import sys; sys.exit(sys.version_info[:2] != (3, 11))'
pip_pid=
scratch=

say() { printf '%s\n' "$*"; }

fail() {
    say "$*" >&2
    exit 1
}

# Background processes ignore Ctrl-C, so this script ends them.
clean_up() {
    if [ -n "$pip_pid" ]; then kill "$pip_pid" 2>/dev/null || true; fi
    if [ -n "$scratch" ]; then rm -rf "$scratch"; fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

find_python() {
    for candidate in python3.11 python3 python; do
        if "$candidate" -c "$is_311" >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    fail "Python 3.11 is needed and was not found: install it (wheels of DGL 1.1.3 stop there), so that" \
        "'python3.11' is on the PATH."
}

make_venv() {
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
        fail "$python has no 'venv' module: install it too (Debian and Ubuntu: the package python3.11-venv)."
    "$python" -m venv --clear "$1" >>"$log" 2>&1 || fail "$1 could not be made, see $log."
}

phase() {
    if grep -q '^Compiling' "$log"; then
        say "compiling"
    elif grep -q '^Installing collected' "$log"; then
        say "installing $(grep '^Installing collected' "$log" | tr ',' '\n' | wc -l) packages"
    else
        say "finding packages, $(grep -c '^Collecting\|^Processing' "$log" || true) so far"
    fi
}

# The lines of the command go to the log; the terminal gets one line now and then.
run_logged() {
    "$@" >>"$log" 2>&1 &
    pip_pid=$!
    seconds=0
    while kill -0 "$pip_pid" 2>/dev/null; do
        sleep 1
        seconds=$((seconds + 1))
        if [ $((seconds % 15)) -eq 0 ]; then
            say "  $seconds s: $(phase)"
        fi
    done
    status=0
    wait "$pip_pid" || status=$?
    pip_pid=
    if [ "$status" -ne 0 ]; then
        grep -v 'is ignored' "$log" | tail -n 15 >&2
        fail "That failed; the whole log is in $log."
    fi
}

install() {
    if ! .venv/bin/python -c "$is_311" >/dev/null 2>&1; then
        say "Creating .venv"
        make_venv .venv
    fi
    say "Installing the locked dependencies into .venv (a few minutes the first time; log: $log)"
    run_logged .venv/bin/python -m pip install --progress-bar off -c constraints.txt -e '.[all,airflow,dev]'
    say "Compiling the library for this processor (about a minute)"
    say "Compiling" >>"$log"
    run_logged .venv/bin/partition-ops compile
    # saves 0.3 s of every process where PYTHONDONTWRITEBYTECODE is set
    run_logged .venv/bin/python -m compileall -q dags local_stack partition_ops plugins
    touch .venv/installed
    say "The environment is ready"
}

lock() {
    scratch=$(mktemp -d)
    make_venv "$scratch/venv"
    say "Installing the newest dependencies that fit pyproject.toml into a temporary environment"
    run_logged "$scratch/venv/bin/python" -m pip install --progress-bar off '.[all,airflow,cluster,dev,docs,spark]'
    {
        say "# Every version that 'make' installs. Renewed by 'make lock'; do not edit by hand."
        say "# A build such as '+cpu' is left out, so that the machine decides which one it takes."
        "$scratch/venv/bin/python" -m pip freeze --all --exclude pip --exclude partition-ops 2>>"$log" |
            sed 's/+cpu$//'
    } >"$scratch/constraints.txt"
    cat "$scratch/constraints.txt" >constraints.txt
    say "constraints.txt now has $(grep -c '==' constraints.txt) packages"
}

mkdir -p .local/logs
: >"$log"
case "${1:-}" in
    install) install ;;
    lock) lock ;;
    *) fail "usage: environment.sh install|lock" ;;
esac
