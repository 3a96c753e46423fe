#!/usr/bin/env bash
# Searches for races and undefined behaviour in memory that ranks and threads share: four tools, each on the tests that it
# can run. Usage: tools/check_memory.sh [loom]    loom only, which takes a minute; all by default
set -euo pipefail
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-target}"

echo "loom: every order in which accesses to a channel may take effect"
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$target/loom" cargo test --quiet -p ringroad-runtime --lib channel
[ "${1:-}" = loom ] && exit

# The nightly of tools/fuzz.sh. It is a fixed one, so that a new compiler does not change what is found.
nightly=nightly-2026-05-20
installed="$(rustup component list --toolchain "$nightly" --installed 2>/dev/null || true)"
if [[ "$installed" != *miri* || "$installed" != *rust-src* ]]; then
    rustup toolchain install "$nightly" --profile minimal --component miri --component rust-src
fi
cargo=(cargo "+$nightly")
host="$(rustc -vV | sed -n 's/^host: //p')"
# Tests of collectives with few ranks and every way to wait.
some=(a_wait_may_end any_byte polling_completes memory_of_a_refused)
# These tests take longer than a minute each.
skipped=(--skip small_tori --skip 16_ranks --skip 27_ranks --skip 64_ranks --skip up_to_8_ranks --skip 7_and_8_ranks)

echo "Miri: undefined behaviour"
miri=("${cargo[@]}" miri test --quiet -p ringroad-runtime)
export MIRIFLAGS="-Zmiri-disable-isolation"
CARGO_TARGET_DIR="$target/miri" "${miri[@]}" --lib --test transports
CARGO_TARGET_DIR="$target/miri" "${miri[@]}" --test collectives --test faults -- "${some[@]}"

# Some tests allocate more memory than there is, and expect an error.
export TSAN_OPTIONS=allocator_may_return_null=1 ASAN_OPTIONS=allocator_may_return_null=1

echo "ThreadSanitizer: races, at full length"
RUSTFLAGS="-Zsanitizer=thread --cfg tsan" CARGO_TARGET_DIR="$target/tsan" "${cargo[@]}" test --quiet -Zbuild-std \
    --target "$host" -p ringroad-runtime --lib --test transports --test collectives --test faults -- "${skipped[@]}"

echo "AddressSanitizer: accesses to invalid or freed memory"
# An abort that has no time leaves memory to UCX.
RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR="$target/asan" cargo test --quiet --target "$host" \
    -p ringroad-runtime --lib --tests -- "${skipped[@]}" --skip abort_without_time
