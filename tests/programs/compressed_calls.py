"""Random compressed calls of numbers of all magnitudes, whose results are compared with sums of longer numbers.

    compressed_calls.py CALLS [SEED]

Every collective with formats, every format that is bounded and many values of `max_error`, every type: magnitudes from
the smallest subnormal number to the largest finite one, mixtures within a block and between blocks, one rank with far
larger numbers than others. Prints how many calls had which format, and what was wrong; the exit status is 1 then.
"""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import ringroad

NETWORKS = ["ring:2", "ring:4", "mesh:3", "torus:2x3"]
COLLECTIVES = ["allreduce", "allreduce", "reduce_scatter", "allgather", "broadcast", "alltoall"]
ERROR = {"f16": 1 / 2048, "fp8": 16.125 / 416, "int8": 1 / 252, "int4": 1 / 12}
"""The most by which one rounding moves an element, as a fraction of the largest magnitude of its block."""
BATCH = 50


def magnitudes(rng: np.random.Generator, kind: str, low: int, high: int, count: int) -> Any:
    """Numbers with exponents between these two."""
    top = int(rng.integers(low, high + 1))
    match kind:
        case "one":
            powers = top
        case "mixed":
            powers = top - (rng.random(count) * (top - low)).astype(int)
        case "blocks":
            powers = np.repeat(rng.integers(low, high + 1, count // 256 + 1), 256)[:count]
        case "near":
            powers = top - (rng.random(count) * min(top - low, 20)).astype(int)
        case _:
            powers = np.full(count, low + rng.integers(0, 24))
    return np.ldexp(rng.uniform(-2, 2, count).astype(np.longdouble), powers)


@dataclass
class Call:
    """A call of all ranks."""

    collective: str
    dtype: Any
    given: list[Any]
    how: dict[str, Any]
    what: str
    root: int

    def make(self, comm: ringroad.Communicator) -> Any:
        """This rank's result."""
        mine = self.given[comm.rank]
        if self.collective == "broadcast":
            return comm.broadcast(mine.copy(), self.root, **self.how)
        return getattr(comm, self.collective)(mine, **self.how)

    def expected(self) -> list[Any]:
        """The exact results."""
        long = [vector.astype(np.longdouble) for vector in self.given]
        ranks = len(long)
        match self.collective:
            case "broadcast":
                return [long[self.root]] * ranks
            case "allgather":
                return [np.concatenate(long)] * ranks
            case "alltoall":
                return [np.concatenate([np.split(vector, ranks)[rank] for vector in long]) for rank in range(ranks)]
        total = sum(long) * self.how.get("factor", 1 / np.longdouble(ranks) if self.how["op"] == "avg" else 1)
        return [total] * ranks if self.collective == "allreduce" else np.split(total, ranks)

    def mistake(self, results: list[Any]) -> str | None:
        """What is wrong with the results."""
        ranks, type_ = len(results), ml_dtypes.finfo(self.dtype)
        reduces = self.collective in ("allreduce", "reduce_scatter")
        if self.collective in ("allreduce", "allgather", "broadcast") and len({r.tobytes() for r in results}) > 1:
            return "ranks have other bits"
        norm = sum(np.abs(vector.astype(np.longdouble)).max(initial=0) for vector in self.given)
        scaled = norm * self.how.get("factor", 1 / ranks if self.how.get("op") == "avg" else 1)
        if (allowed := self.how.get("max_error")) is None:
            wire, *stochastic = self.how["wire"].split(":")
            allowed = ERROR[wire] * (ranks + 1 if reduces else 1) * (2 if stochastic else 1) * 1.01
            allowed += (ranks + 1) / 256 if type_.bits == 16 else 0
        # What the type rounds in additions and products.
        own = (2 * ranks * float(type_.eps) if reduces else 0) * scaled
        # Subnormal numbers have no nearer neighbour.
        near = scaled < float(type_.smallest_subnormal) * 2.0**20 * ranks or self.how.get("op") in ("avg", "premul_sum")
        own += np.longdouble(type_.smallest_subnormal) * ((ranks + 1) / 2 if near else 0)
        for result, exact in zip(results, self.expected(), strict=True):
            worst = np.abs(result.ravel().astype(np.longdouble) - exact).max(initial=0)
            if not worst <= allowed * scaled + own:
                return f"an error of {worst:.4g}, which is {worst / scaled:.3g} of {scaled:.4g}, not {allowed:.3g}"
        return None


def call(rng: np.random.Generator, ranks: int, seen: Counter[str]) -> Call:
    """A random call of so many ranks."""
    collective = rng.choice(COLLECTIVES)
    dtype = np.dtype(rng.choice(["float32", "float32", "float64", "float16", "bfloat16"]))
    type_ = ml_dtypes.finfo(dtype)
    formats = ["fp8", "int8", "int4"] if type_.bits == 16 else ["f16", *ERROR, "int8:stochastic", "int4:stochastic"]
    how: dict[str, Any] = {"wire": str(rng.choice(formats))}
    if rng.random() < 0.4:
        how = {"max_error": float(10 ** rng.uniform(-3.5, -1))}
    elements = int(rng.choice([1, 100, 255, 257, 1000, 3000, 3000]))
    low, high = (int(np.log2(np.longdouble(x))) for x in (type_.smallest_subnormal, type_.max))
    if reduces := collective in ("allreduce", "reduce_scatter"):
        how["op"] = str(rng.choice(["sum", "sum", "avg", "premul_sum"]))
        if how["op"] == "premul_sum":
            how["factor"] = 0.25
        high -= 4  # the sum stays in the range of the type
    count = elements * ranks if collective in ("reduce_scatter", "alltoall") else elements
    kind = str(rng.choice(["one", "mixed", "blocks", "near", "least"]))
    limits = [(low, high)] * ranks
    if rng.random() < 0.2:
        limits = [(low, low + (high - low) // 2)] * ranks
        limits[rng.integers(ranks)] = (high - 3, high)
    vectors = [magnitudes(rng, kind, *limit, count) for limit in limits]
    most = np.longdouble(type_.max) / (16 if reduces else 1)
    given = [np.clip(vector, -most, most).astype(np.float64).astype(dtype) for vector in vectors]
    seen[how.get("wire", "max_error")] += 1
    what = f"{collective} of {count} {dtype}, {kind} {limits}, {how}"
    return Call(collective, dtype, given, how, what, int(rng.integers(ranks)))


def main() -> int:
    calls, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    rng = np.random.default_rng(seed)
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    groups = [
        ringroad.Communicator.in_process(topology.ranks, timeout=600, topology=topology)
        for topology in (ringroad.Topology(f"{spec},bandwidth=5Mbit/s") for spec in NETWORKS)
    ]
    with ThreadPoolExecutor(max(map(len, groups))) as pool:
        while seen.total() < calls:
            group = groups[rng.integers(len(groups))]
            batch = [call(rng, len(group), seen) for _ in range(BATCH)]
            several = [pool.submit(lambda comm, batch=batch: [one.make(comm) for one in batch], comm) for comm in group]
            everyone = [future.result(1200) for future in several]
            for one, results in zip(batch, zip(*everyone, strict=True), strict=True):
                if mistake := one.mistake(list(results)):
                    wrong.append(f"{len(group)} ranks, {one.what}: {mistake}")
                    print(wrong[-1], flush=True)
    print(seen.total(), "calls,", dict(seen), len(wrong), "wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
