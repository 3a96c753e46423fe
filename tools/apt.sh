#!/usr/bin/env bash
# Installs Debian packages when root; says which ones otherwise: usage: tools/apt.sh PACKAGE ...
set -euo pipefail
if [ "$(id -u)" != 0 ]; then
    echo "missing packages: run  sudo apt-get install $*" >&2
    exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
