"""`ringroad schedule`: an algorithm's steps."""

import json
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ringroad._native import CostModel, Schedule, Topology
from ringroad._support.text import about_bytes, parse_bytes, print_fields, print_json, seconds_text
from ringroad.cli._options import Collective, Format, Json, Name, On, Root, Size, file_option
from ringroad.lab import formats


def schedule(
    name: Name,
    topology: On,
    collective: Collective = "allreduce",
    root: Root = 0,
    show: Annotated[bool, typer.Option("--show", help="Print every step.")] = False,
    output: Annotated[
        Path | None, file_option("--output", "-o", "--save", help="Write the schedule to a file.")
    ] = None,
    format: Format = None,
    size: Size = "1MiB",
    as_json: Json = False,
) -> None:
    """Build an algorithm's schedule for a topology, verify it and describe it."""
    if format is not None and output is None:
        raise ValueError(f"--format {format} needs a file to write; add -o FILE")
    network = Topology(topology)
    effort = _Effort()
    with effort.of("build"):
        built = Schedule.build(name, network, collective, root)
    with effort.of("verify"):
        built.verify()
    with effort.of("lower"):
        operations, _ = built.lower(0, network.ranks)
    cost, held = CostModel().cost(built, network, 0), built.held_for_others
    if output is not None:
        formats.write(built, output, format=format, bytes=parse_bytes(size))
    if as_json:
        report = {
            "algorithm": name,
            "collective": built.collective,
            "root": built.root,
            "topology": network.spec,
            "ranks": built.ranks,
            "steps": built.steps,
            "ports": built.ports,
            "chunks": built.chunks,
            "slots": built.slots,
            "sent": built.max_sent,
            "held_for_others": held,
            "max_link_load": cost.max_link_load,
            "operations": operations,
            "verified": True,
            "effort": {"seconds": effort.seconds, "bytes": effort.bytes()},
        }
        return print_json(report | ({"schedule": json.loads(built.to_json())} if show else {}))
    times = ", ".join(f"{what} {seconds_text(seconds)}" for what, seconds in effort.seconds.items())
    print_fields(
        f"{name}: {collective} on {network.spec}",
        [
            ("ranks", str(built.ranks)),
            ("steps", str(built.steps)),
            ("ports", str(built.ports)),
            ("chunks", str(built.chunks)),
            ("slots", str(built.slots)),
            ("sent per rank", f"{built.max_sent:.4g} vectors"),
            *_relays(built, held),
            ("most loaded link", f"{cost.max_link_load:.4g} vectors"),
            ("verified", "yes"),
            ("rank 0's plan", f"{operations} operations for one element per rank"),
            ("effort", f"{times}; {about_bytes(effort.bytes())} of memory"),
        ],
    )
    if show:
        print(f"\n{built}")
    return None


class _Effort:
    """Measures stages: the seconds of each, and by how many bytes the process's peak memory grew in all."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._before = self._peak()
        self._after = self._before

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - start
        self._after = self._peak()

    def bytes(self) -> int:
        return self._after - self._before

    @staticmethod
    def _peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _relays(built: Schedule, held: float) -> list[tuple[str, str]]:
    """The memory for chunks that ranks forward in an all-to-all, as a row; no row if they forward none."""
    if not held:
        return []
    block = 1 << 12
    memory = built.lower(0, block, 1)[1] / block / built.ranks
    return [("held for others", f"{held:.3g} vectors at once at most; rank 0 allocates {memory:.3g}")]
