#!/usr/bin/env bash
# Installs what `make wheel` has put into dist into clean environments, and runs the examples of README and docs, the numbered
# examples and the tests of the command line there. Usage: tools/check_wheel.sh [VERSION ...], such as 3.12
# Without versions: 3.11 to 3.14. A Python that this machine lacks comes from Debian sid (as root, with debootstrap).
# Every Python gets an environment with the wheel and what it depends on. The first also gets one with all optional packages
# (5 GB), and one with the source package, which pip compiles.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 3.11 3.12 3.13 3.14
wheel=$(ls "$PWD"/dist/ringroad-*manylinux*_"$(uname -m)".whl)
source=$(ls "$PWD"/dist/ringroad-*.tar.gz)
tests=(tests/test_package.py tests/test_docs.py tests/test_docstrings.py tests/test_api_examples.py tests/test_cli.py
    tests/test_local.py tests/test_launch.py)
optional=(torch matplotlib networkx pandas highspy mpi4py libucx IPython sklearn)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
debian=$work/debian
failed=()

# here COMMAND...: runs it on this machine, but where the system's UCX cannot be loaded.
here() {
    local hidden
    hidden=$(ldconfig -p | sed -n 's/.*libucp\.so\.0 .*=> //p')
    # shellcheck disable=SC2016
    HIDDEN=$hidden unshare $([ "$(id -u)" = 0 ] || echo --map-root-user) --mount bash -c \
        'for file in $HIDDEN; do mount --bind /dev/null "$file"; done; unset HIDDEN; exec "$@"' - "$@"
}

# with_ucx COMMAND...: runs it on this machine as it is.
with_ucx() { "$@"; }

# there COMMAND...: runs it in Debian sid, which sees this directory, and nothing else of this machine.
there() {
    # shellcheck disable=SC2016
    ROOT=$debian HERE=$PWD unshare --mount bash -ec '
        for folder in /proc /sys /dev "$HERE"; do
            mkdir -p "$ROOT$folder"
            mount --rbind "$folder" "$ROOT$folder"
        done
        for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
            touch "$ROOT$file"
            mount --bind "$file" "$ROOT$file"
        done
        exec chroot "$ROOT" env --chdir="$HERE" PATH=/usr/local/bin:/usr/bin:/bin "$@"' - "$@"
}

# find_python VERSION: the path of a Python that runs. Those of pyenv need not be on PATH.
find_python() {
    local python
    for python in "$(command -v "python$1" || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        "$python" -c '' 2>/dev/null && echo "$python" && return
    done
    return 1
}

# make_debian VERSION: makes Debian sid with this Python, or adds it.
make_debian() {
    [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null || return 1
    if [ ! -d "$debian" ]; then
        debootstrap --variant=minbase --include="ca-certificates,iproute2,python$1-venv" sid "$debian" >"$work/log" 2>&1 || {
            tail -5 "$work/log"
            return 1
        }
    else
        there env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "python$1-venv" >/dev/null
    fi
}

# check NAME PLACE PYTHON PACKAGE...: installs the packages into an environment, and runs the tests there. They are those of this
# directory, but the package that they import is the installed one.
check() {
    local name=$1 place=$2 python=$3 env=$work/env
    [ "$place" = there ] && env=/env
    echo "== $name"
    if "$place" "$python" -m venv --clear "$env" &&
        "$place" "$env/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' &&
        "$place" "$env/bin/python" -m pip install --quiet --disable-pip-version-check pytest pytest-timeout "${@:4}" &&
        "$place" "$env/bin/python" -c "$whether" "${optional[@]}" &&
        "$place" "$env/bin/python" -m pytest -q -p no:cacheprovider "${tests[@]}"; then
        echo "== $name: passed"
    else
        failed+=("$name")
        echo "== $name: FAILED"
    fi
    rm -rf "$work/env"
}
whether='
import sys
from importlib.util import find_spec
import ringroad
assert ringroad.__file__.startswith(sys.prefix), ringroad.__file__
present = [name for name in sys.argv[1:] if find_spec(name)]
assert len(present) in (0, len(sys.argv) - 1), f"only some optional packages are installed: {present}"
print(f"Python {sys.version.split()[0]}, ringroad {ringroad.__version__}, optional packages:", ", ".join(present) or "none")
'

missing=()
for version in "$@"; do
    if python=$(find_python "$version"); then
        check "$version, wheel" here "$python" "$wheel"
    elif make_debian "$version"; then
        check "$version of Debian sid, wheel" there "python$version" "$wheel"
    else
        missing+=("$version")
    fi
done
if python=$(find_python "$1"); then
    check "$1, wheel and all optional packages" with_ucx "$python" "$wheel[torch,ucx,graphs,programs,notebook,bench]" nbclient \
        --group demo
    tests=(tests/test_package.py tests/test_cli.py tests/test_local.py)
    check "$1, source package" here "$python" "$source"
fi
[ ${#missing[@]} = 0 ] || echo "not found, and not to be had from Debian: Python ${missing[*]}"
[ ${#failed[@]} = 0 ] || { printf 'FAILED: %s\n' "${failed[@]}"; exit 1; }
