#!/usr/bin/env bash
# Installs what `make wheel` has put into dist into clean environments, and runs the examples of README and docs, the numbered
# examples and the tests of the command line there. Usage: tools/check_wheel.sh [ENVIRONMENT ...]
#   3.12         that Python, the wheel, and what the wheel depends on. A Python that this machine lacks comes from Debian sid
#                (as root, with debootstrap)
#   3.12:all     with all optional packages, too (5 GB)
#   3.12:source  the source package, which pip compiles, and what it depends on
# Without arguments: 3.11 to 3.14, and 3.11 in the other two ways.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 3.11 3.12 3.13 3.14 3.11:all 3.11:source
dist=$(realpath "${DIST:-dist}")
ls "$dist"/ringroad-*manylinux*_"$(uname -m)".whl >/dev/null || { echo "no wheel for this machine: run  make wheel" >&2; exit 1; }
tests=(tests/package/test_package.py tests/docs/test_docs.py tests/docs/test_docstrings.py tests/docs/test_examples.py
    tests/cli/test_cli.py tests/startup/test_local.py tests/startup/test_launch.py)
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
for environment in "$@"; do
    version=${environment%:*} place=here packages=("$dist"/ringroad-*manylinux*_"$(uname -m)".whl)
    if python=$(find_python "$version"); then
        case $environment in
        *:all)
            place=with_ucx packages=("${packages[0]}[torch,ucx,graphs,programs,notebook,bench]" --group demo)
            ;;
        *:source)
            packages=("$dist"/ringroad-*.tar.gz)
            ;;
        esac
    elif [ "$version" = "$environment" ] && make_debian "$version"; then
        place=there python=python$version
    else
        missing+=("$environment")
        continue
    fi
    check "$environment" "$place" "$python" "${packages[@]}"
done
[ ${#missing[@]} = 0 ] || echo "not checked, because this machine has no such Python and cannot get it: ${missing[*]}"
[ ${#failed[@]} = 0 ] || { printf 'FAILED: %s\n' "${failed[@]}"; exit 1; }
