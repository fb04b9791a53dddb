# shellcheck shell=bash
# Read by lib.sh: the image that scripts/push left in the registry, and the login there.

repository=${image%:*}                              # of what is released
staging=${STAGING:-{{ staging }}}/${repository##*/} # of what is pushed and not released yet
pushed_file=build/image.txt                         # three lines: staging@digest, the commit, the time of the push

# skopeo speaks plain HTTP to a registry on this machine, and only there.
registry_tls() { case $repository in localhost[:/]* | 127.0.0.1[:/]*) echo "--$1=false" ;; *) echo "--$1=true" ;; esac; }

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

# The digest that a tag of the repository has; nothing when there is no such tag.
digest_of_tag() {
    local answer
    if answer=$(skopeo inspect --no-tags --format {% raw %}'{{.Digest}}'{% endraw %} "$(registry_tls tls-verify)" "docker://$repository:$1" 2>&1); then echo "$answer"; return; fi
    grep -qiE 'manifest unknown|name unknown|not found' <<<"$answer" || fail 3 "$repository does not answer: ${answer##*msg=}"
    # A registry may say so by mistake: the list of its tags has to agree.
    answer=$(skopeo list-tags "$(registry_tls tls-verify)" "docker://$repository" 2>&1) ||
        { grep -qiE 'name unknown|not found' <<<"$answer" && return; fail 3 "$repository does not answer: ${answer##*msg=}"; }
    ! grep -qF "\"$1\"" <<<"$answer" || fail 3 "$repository lists the tag $1 and says that it is not there: try again later"
}

# Fail when a tag of the repository has an image of a newer commit than this one. This clone may not know that commit:
# then the times of both decide.
check_forwards() {
    local there when labels={% raw %}'{{index .Labels "org.opencontainers.image.revision"}} {{index .Labels "org.opencontainers.image.created"}}'{% endraw %}

    read -r there when < <(skopeo inspect --no-tags --format "$labels" "$(registry_tls tls-verify)" "docker://$repository:$1") || true
    if [[ ! $there =~ ^[0-9a-f]{40,64}$ || $there == "$2" ]]; then return; fi
    if git cat-file -e "$there" 2>/dev/null; then
        git merge-base --is-ancestor "$2" "$there" || return 0
    elif [[ ! $(commit_time) < $when ]]; then return
    fi
    fail 1 "$repository:$1 is of a newer commit already, $there: not moved back to $2"
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
