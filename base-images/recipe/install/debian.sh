#!/usr/bin/env bash
# Build step: Debian's packages, in the versions that Debian has now.
#
#   debian.sh install PART   PART is image, installer or devel: the packages in debian/PART.txt beside this file
#   debian.sh upgrade FILE   everything to the newest version, and the packages in FILE (`apt` of the row)
#
# /build/debian/sources.list: sources for apt in place of the system image's own; an empty file keeps these.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
command=${1:?} what=${2:?} list=/build/debian/sources.list sources=()
if [[ -s $list ]]; then
    sources=(-o "Dir::Etc::sourcelist=$list" -o Dir::Etc::sourceparts=/dev/null)
fi
apt() { apt-get "${sources[@]}" -y --no-install-recommends "$@"; }

# Names in a file; `name [amd64]` is for that architecture alone.
names() { sed -E "s/#.*//; s/ \[$(dpkg --print-architecture)\]//; / \[/d" "$1" | xargs; }

apt update
case $command in
    install) file=$(dirname "$0")/debian/$what.txt ;;
    upgrade) file=$what; apt upgrade ;;
esac
# shellcheck disable=SC2046
apt install $(names "$file")
