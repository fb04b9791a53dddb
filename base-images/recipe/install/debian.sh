#!/usr/bin/env bash
# Build step: Debian's packages, exactly those of base-images/os.lock; in the mode `newest` what Debian has now.
#
#   debian.sh install PART LOCK   PART is image, installer or devel; debian/PART.txt beside this file names its packages
#   debian.sh upgrade LOCK        everything to the newest version; does nothing in the mode `locked`
#   debian.sh row LOCK FILE       the packages that FILE names, which one row has in addition, as Debian has them now
#   debian.sh list LOCK FOLDER    write what a lock pins into FOLDER: PART.txt (name=version) and snapshot.txt
#
# LOCK is a folder of the plan: mode, PART.txt, and sources.list where other sources than those of the image are asked for.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
here=$(dirname "$0")
options=(-y --no-install-recommends --allow-downgrades)
sources=()

fail() {
    echo "error: os.lock: $*" >&2
    exit 1
}

# Names of debian/PART.txt; `name [amd64]` is for that architecture alone.
asked() { sed -E "s/#.*//; s/ \[$(dpkg --print-architecture)\]//; / \[/d" "$here/debian/$1.txt" | xargs -n 1; }

pinned() { cat "${@/#/$lock/}" | sort -u; } # PART.txt...

installed() {
    dpkg-query --show --showformat '${db:Status-Abbrev}${Package}=${Version}\n' | sed -n 's/^ii //p' | sort
}

update() {
    if [[ -s $lock/sources.list ]]; then # a snapshot of an older day is not "expired" to us: every version is pinned
        sources=(-o "Dir::Etc::sourcelist=$lock/sources.list" -o Dir::Etc::sourceparts=/dev/null)
        sources+=(-o Acquire::Check-Valid-Until=false)
    fi
    apt-get "${sources[@]}" update
}

# Pins that can neither be downloaded nor are here.
lost() {
    local offered
    offered=$(pinned "$part.txt" | cut -d= -f1 | xargs -r apt-cache "${sources[@]}" madison | sed -E 's/^ *([^ ]+) +\| +([^ ]+) +\|.*/\1=\2/')
    comm -23 <(pinned "$part.txt") <({ installed; echo "$offered"; } | sort -u)
}

# With a lock, what is here is what the lock says: nothing else came along, and the system image brought nothing else.
check_exact() {
    local here_only lock_only
    here_only=$(comm -23 <(installed) <(pinned image.txt "$part.txt") | xargs)
    lock_only=$(comm -13 <(installed) <(pinned image.txt "$part.txt") | xargs)
    [[ -z $here_only$lock_only ]] || fail "the packages are others than those of the lock (here: ${here_only:-none};" \
        "in the lock: ${lock_only:-none}): the operating system image is not that of the lock; take that one (OS_IMAGE)," \
        "or renew the lock with 'make lock-os'"
}

install_part() {
    local gone=() mode
    mode=$(cat "$lock/mode")
    update
    mapfile -t gone < <(lost)
    if [[ $mode == locked && ${#gone[@]} -gt 0 ]]; then
        fail "Debian no longer has ${gone[*]}: renew the lock with 'make lock-os', name a snapshot that has them with" \
            "OS_SOURCES=file, or take what Debian has now with OS_LOCK=newest"
    fi
    [[ $mode == locked ]] || echo "os.lock: newest: takes what Debian has now for ${gone[*]:-nothing} and what is not pinned"
    mapfile -t wanted < <(comm -23 <(pinned "$part.txt") <(printf '%s\n' "${gone[@]}"))
    # shellcheck disable=SC2046
    apt-get "${sources[@]}" install "${options[@]}" "${wanted[@]}" "${gone[@]%%=*}" $([[ $mode == locked ]] || asked "$part")
    [[ $mode != locked ]] || check_exact
}

upgrade() {
    if [[ $(cat "$lock/mode") == newest ]]; then
        update
        apt-get "${sources[@]}" upgrade "${options[@]}"
        echo "os.lock: newest: these are the packages that Debian has now, not those of the lock"
    fi
}

row() {
    [[ -s $names ]] || return 0
    update
    # shellcheck disable=SC2046
    apt-get "${sources[@]}" install "${options[@]}" $(cat "$names")
}

list() {
    mkdir -p "$folder"
    update
    installed >"$folder/image.txt"
    for part in installer devel; do
        # shellcheck disable=SC2046
        apt-get "${sources[@]}" --simulate install "${options[@]}" $(asked "$part") |
            sed -nE 's/^Inst ([^ ]+) (\[[^]]*\] )?\(([^ ]+) .*/\1=\3/p' | sort >"$folder/$part.txt"
    done
    for release in /var/lib/apt/lists/*_InRelease; do
        echo "$(sed -n 's/^Codename: //p' "$release")=$(date -u -d "$(sed -n 's/^Date: //p' "$release")" +%Y%m%dT%H%M%SZ)"
    done | sort >"$folder/snapshot.txt"
}

case ${1:-} in
    install) part=$2 lock=$3; install_part ;;
    upgrade) lock=$2; upgrade ;;
    row) lock=$2 names=$3; row ;;
    list) lock=$2 folder=$3; list ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
