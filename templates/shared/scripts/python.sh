# shellcheck shell=bash
# Read by the scripts that need a Python of this machine.

find_python() {
    local name
    for name in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
        "$name" -c 'import sys; raise SystemExit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && { echo "$name"; return; }
    done
    fail 3 "no Python 3.11, 3.12 or 3.13 here${PYTHON:+ (PYTHON=$PYTHON)}: install one, or say where it is with PYTHON=/path/to/python"
}

# Set `python` and `uv` to those of .venv, else to this machine's, else to a uv in build/uv; at its locked version.
take_uv() {
    local version
    python=$PWD/.venv/bin/python uv=$PWD/.venv/bin/uv
    [[ -x $uv ]] && return
    python=$(find_python)
    version=$(sed -n 's/^uv==\([0-9.]*\).*/\1/p' scripts/tools/uv.lock)
    uv=$(command -v uv || true)
    [[ -n $uv && $("$uv" --version) == "uv $version"* ]] && return
    uv=$PWD/build/uv/bin/uv
    [[ -x $uv ]] && return
    "$python" -m venv --clear build/uv
    build/uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r scripts/tools/uv.lock
}
