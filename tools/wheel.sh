#!/usr/bin/env bash
# Builds what a release consists of into dist: wheels for manylinux_2_28, and the source package. Usage: tools/wheel.sh .venv
# The wheel for this machine's architecture uses the profile that tools/build.sh has made; the other one is built without.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
profile=$target/trained/profile
[ -f "$profile" ] || {
    echo "$profile is missing: install Rust's component llvm-tools, and run  make clean wheel" >&2
    exit 1
}
host=$(rustc -vV | sed -n 's/^host: //p')
rm -rf dist
# Editors show the docstrings of the stub; in the repository it holds types only.
stub=python/ringroad/_native.pyi
types=$(mktemp)
cp "$stub" "$types"
trap 'cp "$types" "$stub"; rm -f "$types"' EXIT
"$venv/bin/python" tools/stubs.py
maturin sdist --out dist
for architecture in x86_64 aarch64; do
    triple=$architecture-unknown-linux-gnu
    flags="" how="without a profiling run"
    if [ "$triple" = "$host" ]; then
        flags=-Cprofile-use=$profile how="with the profile of the profiling run"
    else
        rustup target list --installed | grep -qx "$triple" || rustup target add "$triple"
    fi
    echo "building the wheel for $architecture $how"
    # zig links against the symbols of glibc 2.28, whatever this machine has. Not by maturin's --zig: with it functions have
    # other names than in the profile, which the compiler then ignores.
    linker=$target/zig-$architecture
    printf '#!/bin/sh\nexec maturin zig cc -- -target %s-linux-gnu.2.28 "$@"\n' "$architecture" >"$linker"
    chmod +x "$linker"
    # For the C parts of crates: the same compiler.
    export "CC_${triple//-/_}=$linker"
    RUSTFLAGS="${RUSTFLAGS:-} $flags" maturin build --release --quiet --strip --compatibility manylinux_2_28 \
        --target "$triple" --out dist -- -C linker="$linker"
done
for wheel in dist/*.whl; do
    shown=$("$venv/bin/auditwheel" show "$wheel")
    echo "$shown"
    glibc=$(grep -oP 'tag: "manylinux_2_\K\d+' <<<"${shown//$'\n'/ }")
    [ "$glibc" -le 28 ] || { echo "$wheel needs glibc 2.$glibc" >&2; exit 1; }
done
