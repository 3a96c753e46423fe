"""The reference: a plain program that sums through shared memory (benchmarks/reference). cargo builds it at first
use."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial
from pathlib import Path
from types import TracebackType

import numpy as np
from ringroad.measure.bench.candidate import BenchCandidate, Samples
from ringroad.measure.bench.collectives import IN
from ringroad.measure.bench.data import BenchCase
from ringroad.measure.bench.launch import BenchError

NAME = "reference"
_SOURCES = Path(__file__).parents[2]
_MANIFEST = _SOURCES / "benchmarks" / "reference" / "Cargo.toml"


def build() -> Path:
    """Compiles the program for this CPU, and returns its path. Raises BenchError."""
    if shutil.which("cargo") is None:
        raise BenchError("the reference is compiled here, but cargo is missing: install Rust from https://rustup.rs")
    # A separate directory: with other flags in the same one, cargo would compile everything else again.
    target = Path(os.environ.get("CARGO_TARGET_DIR", _SOURCES / "target"), "reference")
    command = ["cargo", "build", "--release", "--quiet", "--manifest-path", str(_MANIFEST), "--target-dir", str(target)]
    environ = os.environ | {"RUSTFLAGS": "-C target-cpu=native"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"the reference does not compile:\n{done.stderr}")
    return target / "release" / "reference"


def performs(case: BenchCase) -> bool:
    """Whether the program makes such calls."""
    return (case.collective.name, case.dtype, case.op) == ("allreduce", "float32", "sum")


class Reference:
    """The program's processes, which block between bursts. A context manager."""

    def __init__(self, program: Path, ranks: int, max_bytes: int) -> None:
        self.ranks = ranks
        self.process = subprocess.Popen(
            [program, str(ranks), str(max_bytes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def candidates(self, case: BenchCase) -> list[BenchCandidate]:
        return [
            BenchCandidate(NAME, place, [], partial(self.burst, case, place), partial(self.tune, case, place))
            for place in case.collective.places
        ]

    def tune(self, case: BenchCase, place: str) -> str:
        """Lets the program choose its fastest way; returns the name of the way."""
        return self._ask(f"tune {_short(place)} {case.size}")

    def burst(self, case: BenchCase, place: str, calls: int) -> tuple[Samples, int]:
        """Runs calls. Returns seconds by [rank, call], and the number of wrong elements."""
        wrong, *times = self._ask(f"burst {_short(place)} {case.size} {calls}").split()
        return np.array(times, dtype=np.float64).reshape(self.ranks, calls) / 1e9, int(wrong)

    def _ask(self, command: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer shows it
        answer = self.process.stdout.readline()
        if not answer:
            raise BenchError(f"the reference ended with status {self.process.wait()}; its message is above")
        return answer.strip()

    def __enter__(self) -> Reference:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()  # the ranks read end of file then
        self.process.wait()


def _short(place: str) -> str:
    return "in" if place == IN else "out"
