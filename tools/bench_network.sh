#!/usr/bin/env bash
# Measures on emulated networks, one after the other. Usage: tools/bench_network.sh [RECORD]
set -euo pipefail
cd "$(dirname "$0")/.."
record=${1:-/dev/null}
: > "$record"
part=$(mktemp)
trap 'rm -f "$part"' EXIT
for network in ${NETWORKS:-ring:7 ring:8 ring:9 torus:3x3 torus:4x4 hypercube:3 hosts:2x4}; do
    RINGROAD_PROFILE=none .venv/bin/python benchmarks/goals --testbed "$network" --rate "${RATE:-100Mbit}" \
        --algorithms "${ALGORITHMS:-ring,bidirectional-ring,bfb-ring,bucket,swing,trivance,nested,recursive-doubling,direct}" \
        --peers gloo,mpi4py-ucx --place in_place --sizes 1K,16K,256K,1M,4M,16M \
        --tune "${TUNE:-0}" --budget "${BUDGET:-40}" --json "$part"
    cat "$part" >> "$record"
done
