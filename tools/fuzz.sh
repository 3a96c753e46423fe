#!/usr/bin/env bash
# Feeds everything that ringroad reads with mutated files: finds crashes, inputs that take longer than 10 s, and those that
# take more than 1 GiB.
#
#   tools/fuzz.sh [INPUTS [TARGET...]]    INPUTS of each target (1000000); all targets of rust/fuzz/targets by default
#
# What is found is in target/fuzz/found; the last line of each target says how to repeat it. Inputs that reach further are
# kept in target/fuzz/corpus and used by the next run.
set -euo pipefail
cd "$(dirname "$0")/.."
inputs="${1:-1000000}"
shift || true
out="${CARGO_TARGET_DIR:-target}/fuzz"
nightly=nightly-2026-05-20
version=0.13.1
rustup run "$nightly" rustc --version >/dev/null 2>&1 || rustup toolchain install "$nightly" --profile minimal
[[ "$(cargo fuzz --version 2>/dev/null)" == "cargo-fuzz $version" ]] || cargo install --quiet --locked cargo-fuzz --version "$version"

# The versions of everything else; cargo adds those of libfuzzer.
cp Cargo.lock rust/fuzz/Cargo.lock
cargo "+$nightly" fuzz build --fuzz-dir rust/fuzz --target-dir "$out" --codegen-units 16
host="$(rustc -vV | sed -n 's/^host: //p')"
binaries="$out/$host/release"
rm -rf "$out/seeds"
ASAN_OPTIONS=detect_leaks=0 "$binaries/seeds" "$out/seeds"

targets=("$@")
if [[ ${#targets[@]} == 0 ]]; then
    for file in rust/fuzz/targets/*.rs; do
        targets+=("$(basename "$file" .rs)")
    done
fi
mkdir -p "$out/found"
# Memory that has been freed and is not yet used again counts, too.
export ASAN_OPTIONS=quarantine_size_mb=64
failed=()
for target in "${targets[@]}"; do
    mkdir -p "$out/corpus/$target"
    log="$out/$target.log"
    longest=16384
    case "$target" in preferences | topology_spec) longest=256 ;; tcp_connection | wire) longest=1024 ;; esac
    options=(-runs="$inputs" -rss_limit_mb=1024 -timeout=10 -max_len="$longest" -artifact_prefix="$out/found/$target-")
    words="rust/fuzz/dictionaries/$target.dict"
    if [[ -f "$words" ]]; then
        options+=(-dict="$words")
    fi
    start=$SECONDS
    status=0
    "$binaries/$target" "${options[@]}" -print_final_stats=1 "$out/corpus/$target" "$out/seeds/$target" \
        >"$log" 2>&1 || status=$?
    number() { sed -n "s/^stat::$1: *//p" "$log" | tail -1; }
    printf '%-16s %10s inputs  %5s s  %5s MiB  ' "$target" "$(number number_of_executed_units)" \
        "$((SECONDS - start))" "$(number peak_rss_mb)"
    if [[ "$status" == 0 ]]; then
        echo "nothing found"
    else
        failed+=("$target")
        echo "failed: $binaries/$target $(sed -n 's/.*Test unit written to //p' "$log" | tail -1); see $log"
    fi
done
[[ ${#failed[@]} == 0 ]]
