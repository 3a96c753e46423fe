"""Allreduces on emulated networks that nobody names to the ranks: beside the named network, an unknown one, and gloo.

    python benchmarks/discover_bench.py [--rate 100Mbit] [--networks "ring:8;racks"]

Every figure is the shortest of several calls in milliseconds, on the slowest rank. `told`: ranks know the network and
its rates. `found`: nobody tells them anything. `off`: nobody does, and they may not look. `gloo`: torch's.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = (64 << 10, 256 << 10, 1 << 20, 8 << 20)
CALLS = 6
MODES = ("told", "found", "off", "gloo")
SECONDS = 180
"""A run that takes longer is ended, and is an error."""


def main() -> None:
    from emulated_networks import of_table  # which ranks do without

    networks = {network.name: network for network in of_table()}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rate", default="100Mbit")
    parser.add_argument("--networks", default=";".join(networks), help="names, separated by ;")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    records = []
    print(f"{'network':22}" + "".join(f"{mode + ' ' + text:>12}" for mode in MODES for text in ("64K", "1M", "8M")))
    with tempfile.TemporaryDirectory() as folder:
        for name in options.networks.split(";"):
            words = networks[name].words(Path(folder))
            row = {mode: run(words, mode, options.rate) for mode in MODES}
            records.append({"network": name, "milliseconds": row})
            cells = [row[mode][SIZES.index(size)] for mode in MODES for size in (64 << 10, 1 << 20, 8 << 20)]
            print(f"{name:22}" + "".join(f"{cell:12.1f}" for cell in cells), flush=True)
    for other in ("told", "gloo", "off"):
        ratios = sorted(
            mine / theirs
            for record in records
            for mine, theirs in zip(record["milliseconds"]["found"], record["milliseconds"][other], strict=True)
        )
        print(f"found / {other}: median {ratios[len(ratios) // 2]:.2f}, from {ratios[0]:.2f} to {ratios[-1]:.2f}")
    if options.json:
        options.json.write_text(
            json.dumps({"rate": options.rate, "sizes": SIZES, "networks": records}, indent=1) + "\n"
        )


def run(network: list[str], mode: str, rate: str) -> list[float]:
    """The milliseconds for each size."""
    tell = "all" if mode == "told" else "nothing"
    command = [sys.executable, "-m", "ringroad", "testbed", *network, "--rate", rate, "--tell", tell]
    environ = {**os.environ, "RINGROAD_CACHE": "none", "OMP_NUM_THREADS": "1"}
    if mode == "off":
        environ["RINGROAD_TOPOLOGY"] = "off"
    ended = subprocess.run(
        [*command, "--", sys.executable, __file__, "--rank", mode],
        env=environ,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    found = [line for line in ended.stdout.splitlines() if line.startswith("[")]
    if ended.returncode or not found:
        raise SystemExit(f"{' '.join(command)} -- {mode}: exit status {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return [float(number) for number in json.loads(found[0])]


def rank(mode: str) -> None:
    """The part of every rank."""
    import numpy as np

    if mode == "gloo":
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        number, barrier = dist.get_rank(), dist.barrier

        def slowest(values: list[float]) -> list[float]:
            tensor = torch.tensor(values)
            dist.all_reduce(tensor, dist.ReduceOp.MAX)
            return tensor.tolist()

        def reduce(array: np.ndarray) -> None:
            dist.all_reduce(torch.from_numpy(array))

    else:
        import ringroad

        comm = ringroad.init()
        number, barrier = comm.rank, comm.barrier

        def slowest(values: list[float]) -> list[float]:
            return comm.allreduce(np.array(values), op="max").tolist()

        def reduce(array: np.ndarray) -> None:
            comm.allreduce(array, out=array)

    best = []
    for size in SIZES:
        array, taken = np.ones(size // 4, np.float32), []
        for _ in range(CALLS):
            barrier()
            start = time.perf_counter()
            reduce(array)
            taken.append(time.perf_counter() - start)
        best.append(1e3 * min(slowest(taken)[1:]))
    if number == 0:
        print(json.dumps(best), flush=True)
    barrier()
    if mode == "gloo":
        dist.destroy_process_group()
    else:
        comm.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        rank(sys.argv[2])
    else:
        main()
