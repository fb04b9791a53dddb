# shellcheck shell=bash
# Read by the scripts beside it: where a command runs (inside the image, in .venv, in Docker), and how that is said{{ '; the\n# image that scripts/push left in the registry' if project_type != 'library' }}.
set -euo pipefail
{% if project_type == 'batch' %}
stood=$(pwd -P)
{% endif %}
script=$(readlink -f "$0") # before the folder changes; a link in a folder of programs leads here too
CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
fail() { say "${*:2}"; exit "$1"; }

# Settings of your own in .env, for every script and its container, by the rules of `docker run --env-file`: NAME=VALUE in a
# line, the value taken as it stands; NAME alone passes on what is exported. What the caller exported wins.
settings=() names=""
read_settings() {
    local line name number=0 LC_ALL=C # a value is bytes
    while IFS= read -r line || [[ -n $line ]]; do
        number=$((number + 1)) line=${line%$'\r'}
        [[ ! $line =~ ^[[:space:]]*(#.*)?$ ]] || continue
        [[ $line =~ ^([A-Za-z_][A-Za-z0-9_]*)(=.*)?$ ]] || fail 2 ".env, line $number: write NAME=VALUE"
        name=${BASH_REMATCH[1]}
        [[ ! $line =~ ^$name=[\"\'] ]] || fail 2 ".env, line $number: quotes are part of the value, as for docker run --env-file: leave them out"
        [[ ! $line =~ [[:space:]]# ]] || fail 2 ".env, line $number: a comment belongs on a separate line"
        [[ ! $name =~ ^(HOME|IFS|PATH|PYTHONPATH|BASH.*|SHELLOPTS|.*IGNORE|CDPATH|TMOUT|POSIXLY_CORRECT)$ ]] ||
            fail 2 ".env, line $number: $name is for the shell and the scripts to set"
        names+=" $name"
        [[ $line != *=* ]] || printenv "$name" >/dev/null || settings+=("$line")
    done <.env
    # The scripts' own variables have small letters, and bash's UID cannot be set: those reach the command alone.
    for line in ${settings[@]+"${settings[@]}"}; do [[ ! $line =~ ^[A-Z0-9_]+= || $line =~ ^(UID|EUID|PPID)= ]] || export "${line?}"; done
}
if [[ -L .env || -e .env ]]; then read_settings; fi

# become COMMAND...: with each setting as .env has it.
become() { exec env ${settings[@]+"${settings[@]}"} "$@"; }

make_build() { # the folders of reports and proofs
    { mkdir -p build/{test-results,proof} && [[ -w build/test-results && -w build/proof ]]; } 2>/dev/null ||
        fail 3 "build/ cannot be written to, where the results go: take a checkout that is not read-only"
}

# A package index of your own is PIP_INDEX_URL, exported or in .env; uv and scripts/build take it from there.
{% if company.package_index %}
export PIP_INDEX_URL=${PIP_INDEX_URL:-{{ company.package_index }}}
{% endif %}
if [[ -n ${PIP_INDEX_URL:-} ]]; then export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}; fi
# With a second index, both are searched for the best version, as pip does it: uv alone takes the first that has the name.
if [[ -n ${PIP_EXTRA_INDEX_URL:-} ]]; then export UV_INDEX=${UV_INDEX:-$PIP_EXTRA_INDEX_URL} UV_INDEX_STRATEGY=${UV_INDEX_STRATEGY:-unsafe-best-match}; fi
if [[ -n ${PIP_TRUSTED_HOST:-} ]]; then export UV_INSECURE_HOST=${UV_INSECURE_HOST:-$PIP_TRUSTED_HOST}; fi

built="" # the stage whose image is up to date
base_image=${BASE_IMAGE:-{{ base_image }}}
image=${IMAGE:-{{ registry }}/{{ project_name }}:dev}

# -h and --help print the comment at the top of the script that was called.
case ${1:-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$script"; exit 0 ;; esac

# The commit, and -dirty where what is packaged differs from it; a new file that git does not ignore counts as well.
commit() {
    local found new
    found=$(git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null) || { echo unknown; return; }
    new=$(git ls-files --others --exclude-standard -- src wheels pyproject.toml Dockerfile weights.lock 'requirements*.lock'{% for path in adopted.code | default([]) %} {{ path }}{% endfor %})
    [[ -z $new || $found == *-dirty ]] || { say "not in the commit: ${new%%$'\n'*}"; found+=-dirty; }
    echo "$found"
}
commit_time() { TZ=UTC git show --no-patch --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null || echo unknown; }

# What a script found good stands in build/proof/, with the commit that it is about: a release asks for each of them.
proved() { make_build && commit >"build/proof/$1"; }

# keep_report REPORT NAME: of pytest, for the release. It counts subtests that passed and names none: count what is named.
keep_report() { sed -E "s/(<testsuite [^>]* tests=)\"[0-9]+\"/\1\"$(grep -o '<testcase ' "$1" | grep -c .)\"/" "$1" >"build/proof/$2"; }

# from_wheel PYTHON MODULE ARGUMENT...: become a program of the runtime, straight from its wheel: it needs no .venv.
from_wheel() {
    local wheel # the one that scripts/lock takes; a library names none
    wheel=$(sed -n 's/.* @ file://p' wheels/requirements.in 2>/dev/null | tail -n 1) ||
        wheel=$(compgen -G 'wheels/gpu_repo_runtime-*.whl' | sort --version-sort | tail -n 1) || true
    [[ $(tail -c 22 "$wheel" 2>/dev/null | head -c 2) == PK ]] || # so ends a whole archive
        fail 1 "wheels/ holds no runtime, or a part of it: 'git checkout HEAD -- wheels' brings it back, 'git lfs pull' where git keeps it elsewhere"
    exec env ${settings[@]+"${settings[@]}"} PYTHONPATH="$PWD/$wheel" PYTHONSAFEPATH=1 PYTHONDONTWRITEBYTECODE=1 "$1" -m "gpu_repo_runtime.$2" "${@:3}"
}

find_python() { # of this machine
    local name
    for name in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
        "$name" -c 'import sys; raise SystemExit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && { echo "$name"; return; }
    done
    fail 3 "no Python 3.11, 3.12 or 3.13 here${PYTHON:+ (PYTHON=$PYTHON)}: install one, or say where it is with PYTHON=/path/to/python"
}

any_python() { if [[ -x .venv/bin/uv && -x .venv/bin/python ]]; then echo .venv/bin/python; else find_python; fi; }

has_gpu() { [[ -e /dev/nvidiactl || -e /dev/dxg ]]; }
docker_answers() { command -v docker >/dev/null && docker info >/dev/null 2>&1; }
stage_image() { if [[ $1 == runtime ]]; then echo "$image"; else echo "$image-$1"; fi; }

# Docker's options that hand the GPUs to a container, all or the one that GPUS numbers (0, 1, ...): NVIDIA's runtime,
# else the Container Device Interface.
gpu_options() {
    has_gpu || return 0
    if docker info --format {% raw %}'{{json .Runtimes}}'{% endraw %} | grep -q '"nvidia"'; then echo --gpus "${GPUS:+device=}${GPUS:-all}"
    elif compgen -G '/etc/cdi/*nvidia*' >/dev/null || compgen -G '/var/run/cdi/*nvidia*' >/dev/null; then echo --device "nvidia.com/gpu=${GPUS:-all}"
    else say "this machine has an NVIDIA GPU that Docker cannot hand out: install the NVIDIA container toolkit; going on without it"
    fi
}

# Build the image of a stage, once in a script.
ensure_image() {
    [[ $built == "$1" ]] && return
    say "building $(stage_image "$1")"
    scripts/build "$1" >&2 || exit
    built=$1
}

{% if project_type != 'library' %}
# Let `weights` be Docker's options for what weights.lock names; an image that runs on this checkout does not see its own.
weights=()
mount_weights() {
    local folder
    [[ -f weights.lock ]] || return 0
    folder=$(scripts/weights fetch --print) || exit
    weights=(--volume "$folder:/weights:ro" --env WEIGHTS=/weights)
}

{% endif %}
# in_docker STAGE COMMAND...: run COMMAND on this checkout in the image of STAGE, as the user who asks for it.
in_docker() {
    local stage=$1 options reference mount=$PWD:/app
    shift
{% if project_type == 'library' %}
    ensure_image "$stage"
    reference=$(stage_image "$stage")
{% else %}
    if [[ $stage == pushed ]]; then # its own code, and this checkout's build folder for what comes out
        reference=$(pushed_image) || exit
        mount=$PWD/build:/app/build
        pull_pushed "$reference"
    else
        ensure_image "$stage"
        reference=$(stage_image "$stage")
    fi
{% endif %}
{% if project_type != 'library' %}
    if [[ $stage != pushed || ${WEIGHTS_IN:-} == volume ]]; then mount_weights; fi
{% endif %}
    options=$(gpu_options)
    say "in the Docker image $reference, ${options:-no GPU}"
    [[ -t 0 && -t 1 ]] && options+=" -it"
    # shellcheck disable=SC2086  # options are words
    become docker run --rm --ipc=host $options{{ ' ${weights[@]+"${weights[@]}"}' if project_type != 'library' }} ${PUBLISH:+--publish "$PUBLISH"} --user "$(id -u):$(id -g)" \
        --env HOME=/tmp $(printf -- '--env %s ' DEVICE {{ 'JOB_FOLDER JOB_SETTINGS ' if project_type == 'batch' }}PORT SMOKE_REQUIRE $names) --volume "$mount" "$reference" "$@"
}
{% if project_type != 'library' %}

repository=${image%:*} # of what is released
staging=${STAGING:-{{ staging }}}/${repository##*/} # of what is pushed and not released yet
pushed_file=build/image.txt # three lines: staging@digest, the commit, the time of the push

pushed_image() {
    [[ -s $pushed_file ]] || fail 2 "$pushed_file is not here: it names the image that scripts/push left in the registry; run that first"
    head -n 1 "$pushed_file"
}

# Read what scripts/push wrote into `pushed`, `pushed_commit` and `pushed_at`.
read_pushed() {
    pushed=$(pushed_image)
    { read -r pushed && read -r pushed_commit && read -r pushed_at; } <"$pushed_file" ||
        fail 2 "$pushed_file does not say from which commit and when the image was pushed: run scripts/push again"
}

proved_pushed() { [[ ${RUN_IN:-} != pushed ]] || { mkdir -p build/proof && cp "$pushed_file" "build/proof/$1"; }; }

pull_pushed() { (from_wheel python3 patience docker pull --quiet "$1") >/dev/null || fail 3 "cannot pull $1: is this machine logged in to its registry?"; }
{% endif %}

# here (inside the image), venv or docker; RUN_IN=venv or RUN_IN=docker decides where both are possible.
{% if project_type != 'library' %}
# RUN_IN=pushed is the very image that scripts/push left in the registry.
{% endif %}
place() {
    if [[ -f /opt/base/image.json ]]; then echo here
    elif [[ -n ${RUN_IN:-} ]]; then echo "$RUN_IN"
    elif [[ -x .venv/bin/python ]]; then echo venv
    elif docker_answers; then echo docker
    else fail 3 "there is neither .venv nor Docker here: run scripts/setup first"
    fi
}

{% if project_type == 'batch' %}
# Relative paths among the options of the job are of the folder from which a script is called: JOB_FOLDER tells the job.
paths_of_the_caller() {
    local root
    root=$(pwd -P)
    case $stood/ in
        "$root"/*) JOB_FOLDER=${stood#"$root"} JOB_FOLDER=${JOB_FOLDER#/} ;;
        *) JOB_FOLDER=$stood
            case $(place) in docker | pushed) fail 2 "a container sees this repository alone: call it from $root or a folder in it" ;; esac ;;
    esac
    export JOB_FOLDER
}

{% endif %}
# in_project STAGE COMMAND...: run COMMAND where this machine can, with the packages of the Dockerfile's STAGE.
in_project() {
    local stage=$1 place gpu="no NVIDIA GPU"
    shift
    place=$(place)
    has_gpu && gpu="NVIDIA GPU present"
    export PYTHONPATH=$PWD/src{{ ':$PWD' if adopted.code | default([]) }}
    case $place in
        here) say "inside the image, $gpu"; become "$@" ;;
        venv) say "in .venv, $gpu"
            if [[ -f .venv/folder && $(<.venv/folder) != "$(pwd -P)" ]]; then
                fail 3 ".venv was made for $(<.venv/folder), whose code it would run: run scripts/setup"
            fi
            if ! cat requirements*.lock | cmp -s - .venv/locks 2>/dev/null; then
                say "the requirements locks changed after .venv was made, or scripts/setup did not end: run it"
            fi
            PATH=$PWD/.venv/bin:$PATH become "$@" ;;
        docker) in_docker "$stage" "$@" ;;
{% if project_type != 'library' %}
        pushed) in_docker pushed "$@" ;;
{% endif %}
        *) fail 2 "RUN_IN=$place is unknown: take {{ 'venv or docker' if project_type == 'library' else 'venv, docker or pushed' }}" ;;
    esac
}
