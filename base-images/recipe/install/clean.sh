#!/usr/bin/env bash
# Build step: empty what apt leaves behind, without deleting a file that a lower layer may hold.
set -euo pipefail
apt-get clean
find /var/lib/apt/lists /var/cache/apt -type f -name '*[_.]*' -delete
find /var/log /var/cache/debconf -type f -size +0 \( -path '/var/log/*' -o -name '*-old' \) -exec truncate --size=0 {} +
rm -f /var/cache/ldconfig/aux-cache
find /tmp -mindepth 1 -xdev -delete
