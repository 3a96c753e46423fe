#!/usr/bin/env bash
# Compiles the core to WebAssembly, into docs/playground/core. Usage: tools/playground.sh
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
version=$(sed -n '/^name = "wasm-bindgen"$/{n;s/version = "\(.*\)"/\1/p}' Cargo.lock)
rustup target list --installed | grep -q wasm32-unknown-unknown || rustup target add wasm32-unknown-unknown
tool=$(command -v wasm-bindgen || true)
# The program must be of the version of the crate.
if [ -z "$tool" ] || [ "$("$tool" --version)" != "wasm-bindgen $version" ]; then
    tool=$target/wasm-bindgen-$version/bin/wasm-bindgen
    # Without optimisation it is built in half of the time.
    [ -x "$tool" ] || cargo install wasm-bindgen-cli --version "$version" --locked --quiet --debug \
        --root "$target/wasm-bindgen-$version" --target-dir "$target/wasm-bindgen-build"
fi
cargo build -p ringroad-web --target wasm32-unknown-unknown --profile web --quiet
"$tool" --target web --no-typescript --remove-producers-section --out-dir docs/playground/core \
    "$target/wasm32-unknown-unknown/web/ringroad_web.wasm"
