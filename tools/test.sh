#!/usr/bin/env bash
# Runs a set of tests that needs more than `make test`. Usage: tools/test.sh SET
#   playground  the playground, in node and in headless Chromium
#   torch       torch.distributed with other versions of torch, each in its own environment of 5 GB (TORCHES="2.8 2.14")
#   gpu         tensors on a GPU: values, streams, graphs, training, speed; without one it says so
#   frameworks  training with six frameworks, and under mpirun and a Slurm of its own, beside gloo (10 minutes, 2 GB)
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
case $1 in
playground)
    tools/playground.sh
    "$python" -m pip install --quiet --group playground
    command -v node >/dev/null || tools/apt.sh nodejs
    command -v chromium >/dev/null || tools/apt.sh chromium
    RINGROAD_TEST_REQUIRE_PLAYGROUND=1 "$python" -m pytest -q tests/docs/test_playground.py
    ;;
torch)
    # shellcheck disable=SC2086
    tools/torch_matrix.sh ${TORCHES:-2.8 2.13 2.14}
    ;;
gpu)
    "$python" tools/check_gpu.py
    ;;
frameworks)
    tools/frameworks.sh .venv -q
    ;;
*)
    echo "unknown set of tests: $1; there are" >&2
    sed -nE 's/^# {3}([a-z]+ .*)/  \1/p' "$0" >&2
    exit 2
    ;;
esac
