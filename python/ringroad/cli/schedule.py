"""`ringroad schedule`: an algorithm's steps, or those of a file."""

import json
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ringroad._native import CostModel, Schedule, Topology
from ringroad._support.text import about_bytes, parse_bytes, print_fields, print_json, seconds_text
from ringroad.cli._options import ALGORITHM, SPEC, Format, Json, Performed, Root, Size, file_option, refuse_for_file
from ringroad.lab import formats


def schedule(
    name: Annotated[
        str,
        typer.Argument(
            help="Algorithm, or a schedule file: .json, MSCCL's .xml.", **{**ALGORITHM, "metavar": "SCHEDULE"}
        ),
    ],
    topology: Annotated[str | None, typer.Option("--topology", **SPEC)] = None,
    collective: Performed = None,
    root: Root = 0,
    show: Annotated[bool, typer.Option("--show", help="Print every step.")] = False,
    output: Annotated[Path | None, file_option("--output", "-o", "--save", help="Write the schedule to FILE.")] = None,
    format: Format = None,
    size: Size = "1MiB",
    as_json: Json = False,
) -> None:
    """Build, verify, show and convert schedules.

    Builds an algorithm's schedule for a topology, or reads one from a file. With -o, also writes it, in any format.
    """
    if format is not None and output is None:
        raise ValueError(f"--format {format} needs a file to write; add -o FILE")
    network = None if topology is None else Topology(topology)
    seconds: dict[str, float] = {}
    before = _peak()
    if _is_file(name):
        refuse_for_file(name, collective, root)
        with _timed("read", seconds):
            built = formats.read(name)
    elif network is None:
        raise ValueError("schedule: name the network of the algorithm with --topology, such as --topology torus:4x4")
    else:
        with _timed("build", seconds):
            built = Schedule.build(name, network, collective or "allreduce", root)
    with _timed("verify", seconds):
        built.verify()
    with _timed("lower", seconds):
        operations, _ = built.lower(0, built.ranks)
    grown = _peak() - before
    load = None if network is None else CostModel().cost(built, network, 0).max_link_load
    files = [] if output is None else formats.write(built, output, format=format, bytes=parse_bytes(size))
    if as_json:
        effort = {"seconds": seconds, "bytes": grown}
        return print_json(_report(built, name, network, load, operations, effort, files, show))
    held = built.held_for_others
    times = ", ".join(f"{stage} {seconds_text(taken)}" for stage, taken in seconds.items())
    print_fields(
        f"{name}: {built.collective}{'' if network is None else f' on {network.spec}'}",
        [
            ("ranks", str(built.ranks)),
            ("steps", str(built.steps)),
            ("ports", str(built.ports)),
            ("chunks", str(built.chunks)),
            ("slots", str(built.slots)),
            ("sent per rank", f"{built.max_sent:.4g} of the message"),
            *_relays(built, held),
            *([] if load is None else [("most loaded link", f"{load:.4g} of the message")]),
            ("verified", "yes"),
            ("rank 0's plan", f"{operations} operations for one element per rank"),
            ("effort", f"{times}; {about_bytes(grown)} of memory"),
            *([] if not files else [("written", _names(files))]),
        ],
    )
    if show:
        print(f"\n{built}")
    return None


def _is_file(name: str) -> bool:
    """Whether a word names a file and no algorithm: algorithms have no dots and no slashes."""
    return "." in name or "/" in name


def _names(files: list[Path]) -> str:
    return str(files[0]) if len(files) == 1 else f"{files[0]} to {files[-1]}"


@contextmanager
def _timed(stage: str, seconds: dict[str, float]) -> Iterator[None]:
    """Adds the seconds of a stage."""
    start = time.perf_counter()
    yield
    seconds[stage] = time.perf_counter() - start


def _peak() -> int:
    """The bytes of this process's memory at its peak."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _report(
    built: Schedule,
    name: str,
    network: Topology | None,
    load: float | None,
    operations: int,
    effort: dict[str, Any],
    files: list[Path],
    show: bool,
) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "algorithm": built.name if _is_file(name) else name,
        "collective": built.collective,
        "root": built.root,
        "topology": None if network is None else network.spec,
        "ranks": built.ranks,
        "steps": built.steps,
        "ports": built.ports,
        "chunks": built.chunks,
        "slots": built.slots,
        "sent": built.max_sent,
        "held_for_others": built.held_for_others,
        "max_link_load": load,
        "operations": operations,
        "verified": True,
        "effort": effort,
        "files": [str(file) for file in files],
        **({"schedule": json.loads(built.to_json())} if show else {}),
    }


def _relays(built: Schedule, held: float) -> list[tuple[str, str]]:
    """The memory for chunks that ranks forward in an all-to-all, as a row; no row if they forward none."""
    if not held:
        return []
    block = 1 << 12
    memory = built.lower(0, block, 1)[1] / block / built.ranks
    return [("held for others", f"{held:.3g} of the message at once at most; rank 0 allocates {memory:.3g}")]
