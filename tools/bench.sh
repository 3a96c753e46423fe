#!/usr/bin/env bash
# Runs a set of benchmarks; benchmarks/README.md says what they mean. Usage: tools/bench.sh SET [RECORD]
#   gloo      allreduce of torch tensors beside gloo, 8 B to 64 MiB (RANKS=2,4)
#   peers     allreduce beside gloo, Open MPI and a plain program, 8 B to 128 MiB, with a verdict (20 minutes; BUDGET=1080 seconds)
#   separate  large allreduces beside Open MPI; waits until the first two CPUs share no cache (up to 40 minutes)
#   network   emulated networks, beside the model, the simulator, gloo and Open MPI (16 minutes; TUNE=20 tunes first)
#   discover  emulated networks that nobody names to the ranks: what they find, and how fast they are then (40 minutes)
#   carriers  emulated networks by what carries the messages: tcp, UCX, gloo, plain sockets (40 minutes)
#   choice    the chosen algorithm beside all others, simulated: 37 networks, 4 sizes, 5 collectives (minutes)
#   model     the cost model: every algorithm on 16,384 ranks, and the figures of all papers
#   scale     up to 128 processes beside Open MPI, 4,096 ranks that meet, 64 emulated hosts (PARTS=start,choice; 20 minutes)
#   thin      slow emulated networks: wire formats beside exact elements, gloo and Open MPI (15 minutes)
#   kernels   the reduction kernels beside plain loops, in both caches and in memory (2 minutes)
#   solvers   conjugate gradients beside mpi4py, on 2 and 4 ranks (1 minute)
#   torch     calls and training steps of torch beside gloo (2 minutes)
#   select    tunes, then compares the choice with every fixed algorithm, for 2, 4 and 8 ranks (7 minutes)
set -euo pipefail
cd "$(dirname "$0")/.."
set=$1 record=${2:-}
python=.venv/bin/python
bench=("$python" -m ringroad bench)
goals=("$python" benchmarks/goals)
json=(${record:+--json "$record"})
with_mpi() { "$python" -m pip install --quiet 'ringroad[bench]'; }

# Emulated networks, one after the other.
network() {
    local out=${record:-/dev/null} part network
    part=$(mktemp)
    # shellcheck disable=SC2064
    trap "rm -f '$part'" EXIT
    : >"$out"
    for network in ${NETWORKS:-ring:7 ring:8 ring:9 torus:3x3 torus:4x4 hypercube:3 hosts:2x4}; do
        RINGROAD_PROFILE=none "${goals[@]}" --testbed "$network" --rate "${RATE:-100Mbit}" \
            --algorithms "${ALGORITHMS:-ring,bidirectional-ring,bfb-ring,bucket,swing,trivance,nested,recursive-doubling,direct}" \
            --peers gloo,mpi4py-ucx --place in_place --sizes 1K,16K,256K,1M,4M,16M \
            --tune "${TUNE:-0}" --budget "${BUDGET:-40}" --json "$part"
        cat "$part" >>"$out"
    done
}

# Wire formats on slow emulated networks, one after the other.
thin() {
    local out=${record:-/dev/null} part network rate
    part=$(mktemp)
    # shellcheck disable=SC2064
    trap "rm -f '$part'" EXIT
    : >"$out"
    for network in ${NETWORKS:-ring:4 torus:3x3 hosts:2x4}; do
        for rate in ${RATES:-50Mbit 100Mbit 200Mbit}; do
            RINGROAD_PROFILE=none "${bench[@]}" --testbed "$network" --rate "$rate" --wire bf16,int8 \
                --peers "${PEERS:-gloo,mpi4py-ucx}" --place in_place --sizes "${SIZES:-256K,1M,4M,16M}" \
                --budget "${BUDGET:-100}" --json "$part"
            cat "$part" >>"$out"
        done
    done
}

case $set in
gloo)
    "${bench[@]}" --ranks "${RANKS:-2,4}" --buffers torch --peers gloo "${json[@]}"
    ;;
peers)
    with_mpi
    "${goals[@]}" --ranks 2,4,8 --buffers numpy,torch --peers gloo,mpi4py --reference --launches 2 \
        --budget "${BUDGET:-1080}" --sizes 8,64,256,1K,4K,16K,64K,256K,1M,4M,32M,128M "${json[@]}"
    ;;
separate)
    with_mpi
    "${goals[@]}" --ranks 2,4,8 --buffers numpy,torch --peers mpi4py --cache separate --launches 8 --budget 2280 \
        --sizes 4M,32M,128M "${json[@]}"
    ;;
network)
    with_mpi
    network
    ;;
thin)
    with_mpi
    thin
    ;;
choice)
    "$python" benchmarks/choice.py "${json[@]}"
    ;;
discover)
    "$python" benchmarks/discover_bench.py "${json[@]}"
    "$python" benchmarks/discover_check.py
    ;;
carriers)
    "$python" benchmarks/carriers.py "${json[@]}"
    ;;
scale)
    [[ ${PARTS:-processes} != *processes* ]] || with_mpi
    "$python" benchmarks/scale.py ${PARTS:+--parts "$PARTS"} "${json[@]}"
    ;;
model)
    "$python" -m ringroad.lab.reproduce.speed
    ;;
kernels)
    cargo bench -p ringroad-runtime --features bench --bench kernels
    ;;
solvers)
    with_mpi
    for ranks in 2 4; do
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 .venv/bin/mpirun -n "$ranks" --oversubscribe \
            --bind-to none --mca mpi_yield_when_idle 1 "$python" benchmarks/solvers.py
    done
    ;;
torch)
    "$python" benchmarks/torch_bench.py "${json[@]}"
    ;;
select)
    RINGROAD_PROFILE=none "${goals[@]}" --ranks 2,4,8 --tune 40 --algorithms different --budget 240 \
        --sizes 8,64,256,1K,4K,16K,64K,256K,1M,4M,16M,32M "${json[@]}"
    ;;
*)
    echo "unknown set of benchmarks: $set; there are" >&2
    sed -nE 's/^# {3}([a-z]+ .*)/  \1/p' "$0" >&2
    exit 2
    ;;
esac
