#!/usr/bin/env bash
# Makes the virtual environment for demo, tests and benchmarks. Usage: tools/install.sh .venv
set -euo pipefail
venv=$1
command -v cargo >/dev/null || { echo "cargo is missing: install Rust from https://rustup.rs" >&2; exit 1; }
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed" >&2; exit 1; }
python3 -c 'import venv, ensurepip' 2>/dev/null || tools/apt.sh python3-venv
command -v cc >/dev/null || tools/apt.sh gcc libc6-dev
# torch.compile generates C++.
command -v g++ >/dev/null || tools/apt.sh g++

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
# Dependency groups need a recent pip.
"$venv/bin/python" -m pip install --quiet --upgrade 'pip>=25.1' uv
# uv takes a fifth of pip's time. Where only pip is configured for a mirror, pip installs.
install() {
    "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" "$@" || "$venv/bin/python" -m pip install --quiet "$@"
}
echo "installing torch and the other Python packages into $venv (the first time: about 5 GB, some minutes)"
install --group dev --group demo 'torch>=2.15,<2.16' expecttest
# The package's dependencies: the build's profiling run needs them before the package is installed.
"$venv/bin/python" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' |
    "$venv/bin/python" -m pip install --quiet --requirement /dev/stdin
# UCX: the system's if there is one, else the wheel.
python3 -c 'import ctypes; ctypes.CDLL("libucp.so.0")' 2>/dev/null || install 'libucx-cu12>=1.18'
