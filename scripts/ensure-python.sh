#!/bin/bash
# Make the Python environment in $1 from the hashed lock; install what Debian or Ubuntu leaves out.
set -euo pipefail
venv=$1
cd "$(dirname "$0")/.."

fail() { echo "forklift: $1" >&2; exit 1; }

find_python() {
    for name in python3 python3.13 python3.12 python3.11; do
        if command -v "$name" >/dev/null && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
}

install() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "forklift: installing $* (apt-get)"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    else
        fail "please install: $*   (on Debian or Ubuntu: sudo apt-get install $*)"
    fi
}

command -v git >/dev/null || install git ca-certificates
python=$(find_python)
if [ -z "$python" ]; then
    install python3 python3-venv
    python=$(find_python)
    [ -n "$python" ] || fail "Python 3.11 or newer is needed; install one and run again"
fi
"$python" -c 'import ensurepip, venv' 2>/dev/null || install python3-venv

if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c '' 2>/dev/null; then
    echo "forklift: making $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
echo "forklift: installing the locked requirements into $venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt 2> >(grep -v '^WARNING: Location' >&2)
# What is installed is this checkout itself; an entry point added later is seen after this step only.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
