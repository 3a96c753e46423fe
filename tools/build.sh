#!/usr/bin/env bash
# Builds the extension in two passes, and installs the package into the virtual environment. Usage: tools/build.sh .venv
# The second pass optimises the code that was busy in a profiling run in between. The file `.built` in the environment marks
# success.
set -euo pipefail
export PIP_QUIET=1
cd "$(dirname "$0")/.."
venv=$1
trained="$(realpath -m "${CARGO_TARGET_DIR:-target}")/trained"
rm -rf "$venv/.built" "$trained"/{wheel,package,raw,profile}
host=$(rustc -vV | sed -n 's/^host: //p')
llvm_profdata="$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata"
[ -x "$llvm_profdata" ] || rustup component add llvm-tools || true
if [ ! -x "$llvm_profdata" ]; then
    echo "llvm-profdata is missing (Rust's component llvm-tools): building in one pass; short calls will be slower" >&2
    exec maturin develop --release --quiet
fi

echo "building the extension twice, with a profiling run in between (5 minutes the first time)"
# With a target, cargo leaves build scripts without the flags. tools/wheel.sh has one, and without one functions have other
# names in the profile.
export CARGO_BUILD_TARGET=$host
CARGO_TARGET_DIR="$trained" RUSTFLAGS="${RUSTFLAGS:-} -Cprofile-generate=$trained/raw" \
    maturin build --release --quiet --out "$trained/wheel"
"$venv/bin/python" -m pip install --quiet --no-deps --target "$trained/package" "$trained"/wheel/*.whl
unset LLVM_PROFILE_FILE
PYTHONPATH="$trained/package" "$venv/bin/python" tools/train.py
"$llvm_profdata" merge --output="$trained/profile" "$trained/raw"
# Cargo compares only the profile's file name, which stays the same, so clean our crates. Other crates keep their first
# profile.
cargo clean --quiet --release -p ringroad-core -p ringroad-lab -p ringroad-runtime -p ringroad-py -p ucx-sys
RUSTFLAGS="${RUSTFLAGS:-} -Cprofile-use=$trained/profile" maturin develop --release --quiet
touch "$venv/.built"
