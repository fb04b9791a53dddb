# shellcheck shell=bash
# Read by the scripts: facts about this project. What they do is Python in the runtime, straight from the wheel.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac # its first comment
facts=(
    --kind {{ project_type }} --package {{ package_name }} --framework {{ framework }} --stood "$(pwd -P)"
    --module '{{ module }}' --row {{ image.name }} --staged {{ staging }}
    --name {{ registry }}/{{ project_name }} --base {{ base_image }}{{ ' --index ' ~ company.package_index if company.package_index }}
{% if adopted | default({}) not in ({}, '{}', none) %}
    --adopted '{{ adopted | to_json }}'
{% endif %}
)
[[ ! -e /dev/nvidiactl && ! -e /dev/dxg ]] || facts+=(--gpu)
CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/.."

# runtime VERB ARGUMENT...: become the program behind a script. It needs a Python of this machine, and no .venv.
runtime() {
    wheel=$(printf '%s\n' wheels/gpu_repo_runtime-*.whl | sort -V | tail -n 1) python=.venv/bin/python
    [[ $(tail -c 22 "$wheel" 2>/dev/null | head -c 2 | tr -d '\0') == PK ]] || { # so ends a whole archive
        echo "${0##*/}: wheels/ holds no runtime, or a part of it: 'git checkout HEAD -- wheels' or 'git lfs pull'" >&2
        exit 1
    }
    [[ -x .venv/bin/uv ]] || for python in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
        ! "$python" -c '' 2>/dev/null || break
    done
    export PYTHONPATH=$PWD/$wheel PYTHONSAFEPATH=1 PYTHONDONTWRITEBYTECODE=1
    exec "$python" -m gpu_repo_runtime.scripts "${facts[@]}" "$@"
}
{% if layout == 1 %}

# For your own scripts that call it, until version 0.8.
in_project() { runtime "${0##*/}" "$@"; }
{% endif %}
