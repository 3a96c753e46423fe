"""Allreduce between emulated hosts, by what carries the messages: ringroad's tcp, both UCXs, gloo, and plain sockets.

    python benchmarks/carriers.py --networks ring:9 --rates 200Mbit --sizes 8,4KiB,1MiB

All run one after the other on each network, `--rounds` times, and the least of the rounds' medians counts:
other programs can only make a run longer.
"""

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ringroad._support.text import parse_bytes
from ringroad._support.ucx import _ucx_wheel

SOCKETS = Path(__file__).with_name("sockets_ring.py")
LINE = re.compile(r"^(\S+): ([\d.]+) ms", re.MULTILINE)
MOST, SECONDS = 1000, 0.5  # calls of a size, and about how long they may take


def carriers() -> dict[str, dict[str, str] | None]:
    """The variables of each carrier; None: not ringroad."""
    ucx = {"RINGROAD_TRANSPORT": "auto,ucx", "UCX_TLS": "tcp,self"}
    wheel = {"ucx wheel": ucx | {"RINGROAD_UCX_LIBRARY": path}} if (path := _ucx_wheel()) else {}
    system = {"ucx system": ucx | {"RINGROAD_UCX_LIBRARY": "libucp.so.0"}}
    tcp = {"RINGROAD_TRANSPORT": "auto,tcp"}
    sealed = tcp | {"RINGROAD_SECRET": "open sesame"}
    return {"tcp": tcp, "tcp sealed": sealed, **wheel, **system, "gloo": None, "sockets": None}


def calls(carrier: str) -> tuple[Callable[[np.ndarray], object], int]:
    """What adds up a vector of all ranks in place, and the number of this rank."""
    if carrier == "gloo":
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        return lambda vector: dist.all_reduce(torch.from_numpy(vector)), dist.get_rank()
    import ringroad

    comm = ringroad.init(timeout=60)
    return lambda vector: comm.allreduce(vector, out=vector), comm.rank


def rank(carrier: str, sizes: list[str]) -> None:
    """Runs on every rank."""
    call, number = calls(carrier)
    for size in sizes:
        vector, times = np.zeros(max(1, parse_bytes(size) // 4), np.float32), []
        call(vector)
        start = time.perf_counter()
        call(vector)
        # All ranks make as many calls.
        took = np.array([time.perf_counter() - start], np.float32)
        call(took)
        count = int(np.clip(SECONDS * int(os.environ["WORLD_SIZE"]) / took[0], 3, MOST))
        for _ in range(count):
            start = time.perf_counter()
            call(vector)
            times.append(time.perf_counter() - start)
        if number == 0:
            print(f"{size}: {statistics.median(times) * 1e3:.3f} ms", flush=True)


def run(network: str, rate: str, mtu: str, carrier: str, sizes: list[str]) -> dict[str, float]:
    """Milliseconds by size."""
    environ = os.environ | (carriers()[carrier] or {})
    program = [SOCKETS, *sizes] if carrier == "sockets" else [__file__, "--rank", carrier, "--sizes", ",".join(sizes)]
    words = ["testbed", network, "--rate", rate, "--mtu", mtu, "--", sys.executable, *map(str, program)]
    done = subprocess.run([sys.executable, "-m", "ringroad", *words], env=environ, capture_output=True, text=True)
    found = {size: float(text) for size, text in LINE.findall(done.stdout)}
    if len(found) < len(sizes):
        print(f"{carrier} on {network}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="ring:9,torus:3x3,hypercube:3")
    parser.add_argument("--rates", default="100Mbit,200Mbit")
    parser.add_argument("--mtus", default="1500,9000")
    parser.add_argument("--sizes", default="8,4KiB,1MiB,4MiB,16MiB")
    parser.add_argument("--carriers", default=",".join(carriers()))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="add a line for each network to this file")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = given.sizes.split(",")
    if given.rank:
        return rank(given.rank, sizes)
    for network, rate, mtu in itertools.product(*(x.split(",") for x in (given.networks, given.rates, given.mtus))):
        least: dict[str, dict[str, float]] = {}
        for _, carrier in itertools.product(range(given.rounds), given.carriers.split(",")):
            known = least.setdefault(carrier, {})
            for size, found in run(network, rate, mtu, carrier, sizes).items():
                known[size] = min(found, known.get(size, found))
        print(f"\n{network}, {rate}, MTU {mtu}: ms\n{'':12}" + "".join(f"{size:>10}" for size in sizes))
        for carrier, times in least.items():
            print(f"{carrier:12}" + "".join(f"{times.get(size, float('nan')):10.3g}" for size in sizes), flush=True)
        if given.json:
            with given.json.open("a") as file:
                file.write(json.dumps({"network": network, "rate": rate, "mtu": mtu, "ms": least}) + "\n")
    return None


if __name__ == "__main__":
    main()
