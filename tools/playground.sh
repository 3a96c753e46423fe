#!/usr/bin/env bash
# Compiles the core to WebAssembly, into docs/playground/core. Usage: tools/playground.sh
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
rustup target list --installed | grep -q wasm32-unknown-unknown || rustup target add wasm32-unknown-unknown
cargo build -p ringroad-web --target wasm32-unknown-unknown --profile web --quiet
cargo run --manifest-path tools/bindgen/Cargo.toml --target-dir "$target/bindgen" --locked --quiet -- \
    "$target/wasm32-unknown-unknown/web/ringroad_web.wasm" docs/playground/core
