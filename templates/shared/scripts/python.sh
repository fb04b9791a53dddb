# shellcheck shell=bash
# Read by the scripts that need uv.

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
