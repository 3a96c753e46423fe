#!/usr/bin/env bash
# Installs Debian packages as root; other users get the command to run. Usage: tools/apt.sh PACKAGE ...
set -euo pipefail
if [ "$(id -u)" != 0 ]; then
    echo "missing packages: run  sudo apt-get install $*" >&2
    exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
