# shellcheck shell=bash
# Read by lib.sh: build the image of this project when it is needed, and run commands in it with the GPUs{{ '; the image in\n# the registry that scripts/push left there, and the login' if project_type != 'library' }}.

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

# Build the image of a stage, once in a script; what Docker says is shown only when it fails.
ensure_image() {
    local output status=0
    [[ ${built:-} == "$1" ]] && return
    say "building $(stage_image "$1")"
    output=$(scripts/build "$1" 2>&1) || status=$?
    if ((status)); then
        printf '%s\n' "$output" >&2
        grep -o 'base-install: .*' <<<"$output" | tail -n 1 >&2
        exit "$status"
    fi
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
    exec docker run --rm --ipc=host $options{{ ' "${weights[@]}"' if project_type != 'library' }} ${PUBLISH:+--publish "$PUBLISH"} --user "$(id -u):$(id -g)" \
        --env HOME=/tmp $(printf -- '--env %s ' DEVICE {{ 'JOB_FOLDER JOB_SETTINGS ' if project_type == 'batch' }}PORT SMOKE_REQUIRE $_settings) --volume "$mount" "$reference" "$@"
}
{% if project_type != 'library' %}

repository=${image%:*} # of what is released
staging=${STAGING:-{{ staging }}}/${repository##*/} # of what is pushed and not released yet
pushed_file=build/image.txt # three lines: staging@digest, the commit, the time of the push

# Log in with REGISTRY_USER and REGISTRY_PASSWORD, where they are set, for the time of this script. REGISTRY_PASSWORD_COMMAND
# prints the password where a CI system gives a token in place of one (OIDC).
registry_login() {
    [[ ${repository%%/*} == "${staging%%/*}" ]] || fail 2 "STAGING is in another registry than the releases: ${staging%%/*}, not ${repository%%/*}"
    if [[ -n ${REGISTRY_PASSWORD_COMMAND:-} ]]; then
        REGISTRY_PASSWORD=$(bash -c "$REGISTRY_PASSWORD_COMMAND") && [[ -n $REGISTRY_PASSWORD ]] ||
            fail 3 "REGISTRY_PASSWORD_COMMAND gave no password for the registry"
    fi
    if [[ -z ${REGISTRY_PASSWORD:-} ]]; then
        [[ -z ${REGISTRY_USER:-} ]] || fail 2 "REGISTRY_PASSWORD is empty: the secret of $REGISTRY_USER is not set, or not for this build"
        return
    fi
    DOCKER_CONFIG=$(mktemp -d)
    trap 'rm -rf "$DOCKER_CONFIG"' EXIT
    export DOCKER_CONFIG REGISTRY_AUTH_FILE=$DOCKER_CONFIG/config.json
    docker login --username "${REGISTRY_USER:-}" --password-stdin "${repository%%/*}" <<<"$REGISTRY_PASSWORD" >/dev/null ||
        fail 3 "the registry ${repository%%/*} refused the login of ${REGISTRY_USER:-(no REGISTRY_USER)}, or does not answer"
}

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

pull_pushed() { docker pull --quiet "$1" >/dev/null || fail 3 "cannot pull $1: is this machine logged in to its registry?"; }
{% endif %}
