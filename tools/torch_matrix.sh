#!/usr/bin/env bash
# Runs the tests of torch.distributed with other versions of torch. Usage: tools/torch_matrix.sh 2.8 2.13
# Each version gets an environment in .venv-torch-VERSION, which is removed when its tests have passed (unless KEEP=1).
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { echo "usage: tools/torch_matrix.sh VERSION..." >&2; exit 2; }
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
# One wheel serves all versions: the extension does not depend on torch.
maturin build --release --quiet --out "$wheels"
for version in "$@"; do
    venv=.venv-torch-$version
    echo "== torch $version"
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet "torch==$version.*" pytest pytest-timeout expecttest 'libucx-cu12>=1.18' \
        "$wheels"/*.whl
    # A kept environment has an older build of the same version.
    "$venv/bin/python" -m pip install --quiet --force-reinstall --no-deps "$wheels"/*.whl
    VIRTUAL_ENV=$PWD/$venv "$venv/bin/python" -m pytest -q tests/torch_backend
    [ "${KEEP:-}" = 1 ] || rm -rf "$venv"
done
