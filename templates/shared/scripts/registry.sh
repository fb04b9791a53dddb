# shellcheck shell=bash
# Read by lib.sh: the image that scripts/push left in the registry, and the login there.

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
    [[ -n ${REGISTRY_PASSWORD:-} ]] || return 0
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
