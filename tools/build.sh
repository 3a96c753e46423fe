#!/usr/bin/env bash
# Builds the extension in two passes, and installs the package into the virtual environment: usage: tools/build.sh .venv
# The second pass knows from a training run in between what is busy: short calls take 0.65 to 0.85 times as long.
set -euo pipefail
venv=$1
install=(maturin develop --release --quiet)
host="$(rustc -vV | sed -n 's/^host: //p')"
llvm_profdata="$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata"
if [ ! -x "$llvm_profdata" ] && ! rustup component add llvm-tools; then
    echo "llvm-profdata is missing (of Rust's component llvm-tools): building in one pass, for slower short calls" >&2
    exec "${install[@]}"
fi

trained="${CARGO_TARGET_DIR:-$PWD/target}/trained"
echo "building the extension twice, with a training run in between (4 minutes the first time)"
rm -rf "$trained"/{wheel,package,raw}
CARGO_TARGET_DIR="$trained" RUSTFLAGS="${RUSTFLAGS:-} -Cprofile-generate=$trained/raw" \
    maturin build --release --quiet --out "$trained/wheel"
"$venv/bin/python" -m pip install --quiet --no-deps --target "$trained/package" "$trained"/wheel/*.whl
rm -rf "$trained/raw"  # of build scripts
PYTHONPATH="$trained/package" "$venv/bin/python" tools/train.py
"$llvm_profdata" merge --output="$trained/profile" "$trained/raw"
# Cargo sees only that the file's name is the same.
cargo clean --quiet --release -p ringroad-core -p ringroad-runtime -p ringroad-py
RUSTFLAGS="${RUSTFLAGS:-} -Cprofile-use=$trained/profile" "${install[@]}"
