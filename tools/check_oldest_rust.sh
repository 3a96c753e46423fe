#!/usr/bin/env bash
# Compiles the package with the oldest Rust that Cargo.toml promises. A machine that cannot fetch that toolchain is told so:
# there only clippy's lint `incompatible_msrv` has looked, for functions of the standard library that are newer.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^rust-version = "\(.*\)"/\1.0/p' Cargo.toml)
if ! rustup run "$version" rustc --version >/dev/null 2>&1 &&
    ! timeout 300 rustup toolchain install "$version" --profile minimal >/dev/null 2>&1; then
    echo "not compiled with Rust $version, the oldest that Cargo.toml promises: this machine cannot fetch it" >&2
    exit
fi
cargo "+$version" check -p ringroad-py --quiet --target-dir "${CARGO_TARGET_DIR:-target}/oldest"
