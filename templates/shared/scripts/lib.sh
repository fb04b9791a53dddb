# shellcheck shell=bash
# Read by the scripts beside it: where a command runs (inside the image, in .venv, in Docker) and on what.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

base_image=${BASE_IMAGE:-{{ base_image }}}
image=${IMAGE:-{{ registry }}/{{ project_name }}:dev}

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
fail() { say "${*:2}"; exit "$1"; }

# -h and --help print the comment at the top of the script that was called.
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac

docker_answers() { command -v docker >/dev/null && docker info >/dev/null 2>&1; }
has_gpu() { [[ -e /dev/nvidiactl || -e /dev/dxg ]]; }

# Docker's options that hand every GPU to a container: NVIDIA's runtime, else the Container Device Interface.
gpu_options() {
    has_gpu || return 0
    if docker info --format {% raw %}'{{json .Runtimes}}'{% endraw %} | grep -q '"nvidia"'; then echo --gpus all
    elif compgen -G '/etc/cdi/*nvidia*' >/dev/null || compgen -G '/var/run/cdi/*nvidia*' >/dev/null; then echo --device nvidia.com/gpu=all
    else say "this machine has an NVIDIA GPU that Docker cannot hand out: install the NVIDIA container toolkit; going on without it"
    fi
}

# here (inside the image), venv or docker; RUN_IN=venv or RUN_IN=docker decides where both are possible.
place() {
    if [[ -f /opt/base/image.json ]]; then echo here
    elif [[ -n ${RUN_IN:-} ]]; then echo "$RUN_IN"
    elif [[ -x .venv/bin/python ]]; then echo venv
    elif docker_answers; then echo docker
    else fail 3 "there is neither .venv nor Docker here: run scripts/setup first"
    fi
}

# in_project STAGE COMMAND...: run COMMAND where this machine can, with the packages of the Dockerfile's STAGE.
in_project() {
    local stage=$1 place options gpu="no NVIDIA GPU"
    shift
    place=$(place)
    has_gpu && gpu="NVIDIA GPU present"
    export PYTHONPATH=$PWD/src
    case $place in
        here) say "inside the image, $gpu"; exec "$@" ;;
        venv) say "in .venv, $gpu"; PATH=$PWD/.venv/bin:$PATH exec "$@" ;;
        docker)
            [[ ${BUILT:-} == "$stage" ]] || scripts/build "$stage" || exit
            options=$(gpu_options)
            say "in Docker image $image-$stage, ${options:-no GPU}"
            [[ -t 0 && -t 1 ]] && options+=" -it"
            # shellcheck disable=SC2086  # options are words
            exec docker run --rm --init --ipc=host $options ${PUBLISH:+--publish "$PUBLISH"} --user "$(id -u):$(id -g)" \
                --env HOME=/tmp --env DEVICE --env PORT --env SMOKE_REQUIRE --volume "$PWD:/app" "$image-$stage" "$@" ;;
        *) fail 2 "RUN_IN=$place is unknown: take venv or docker" ;;
    esac
}
