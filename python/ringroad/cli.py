"""The command line: `ringroad`, or `python -m ringroad`."""

import json
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ringroad import _machine
from ringroad._native import (
    Algorithm,
    Cost,
    CostModel,
    RingroadError,
    Schedule,
    Topology,
    __version__,
)
from ringroad._native import algorithms as catalogue
from ringroad._options import Bandwidth, HopLatency, Json, On, StepLatency
from ringroad._text import about_bytes, bytes_text, parse_bytes, print_table, seconds_text, significant
from ringroad.bench.command import bench
from ringroad.commands.alltoall import alltoall
from ringroad.commands.explain import explain
from ringroad.commands.find import find
from ringroad.commands.reproduce import reproduce
from ringroad.commands.routes import routes
from ringroad.commands.simulate import simulate
from ringroad.commands.topology import topology as topology_command
from ringroad.commands.training import training
from ringroad.commands.tune import tune

app = typer.Typer(
    help="Collective communication with the algorithm that suits the network.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.command()(bench)
app.command()(reproduce)
app.command("topology")(topology_command)
app.command()(simulate)
app.command()(explain)
app.command()(find)
app.command()(alltoall)
app.command()(routes)
app.command()(tune)
app.command()(training)

Name = Annotated[str, typer.Argument(metavar="ALGORITHM", help="As `ringroad algorithms` lists them.")]
Collective = Annotated[str, typer.Option(help="What to perform.")]
Root = Annotated[int, typer.Option(help="The root, for collectives that have one.")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs a command line (default: the process's) and exits: 0, or 2 where it makes no sense."""
    try:
        app(arguments)
    except (RingroadError, ValueError, OSError) as error:
        print(f"ringroad: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"ringroad {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    pass


# -------------------------------------------------------------------------------------------------- info


@app.command()
def info(as_json: Json = False) -> None:
    """Show versions, UCX, this machine's network and cores, and every setting."""
    report = _machine.describe()
    if as_json:
        return _print_json(report)
    host = report["host"]
    quota, memory = host["core_quota"], host["shared_memory"]
    cores = f"{host['cores']} allowed" + ("" if quota is None else f", time for {significant(quota)}")
    shared = f"{about_bytes(memory['size'])}, {about_bytes(memory['free'])} free" if memory else "none"
    _section("versions", [(name, version or "not installed") for name, version in report["versions"].items()])
    _section("UCX", list(report["ucx"].items()))
    _section("UCX variables set", list(report["ucx_variables"].items()))
    _section(
        "machine",
        [("host", host["name"]), ("kernel", host["kernel"]), ("cores", cores), ("/dev/shm", shared)],
    )
    _section("interfaces", [(i["name"], _interface(i)) for i in report["interfaces"]])
    print("settings")
    rows = [[s["variable"], s["value"], s["origin"], s["meaning"]] for s in report["settings"]]
    print_table(["variable", "value", "from", "meaning"], rows)
    for warning in report["warnings"]:
        print(f"warning: {warning}")
    return None


def _section(title: str, rows: list[tuple[str, str]]) -> None:
    print(title)
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        first, *more = value.splitlines() or [""]
        print(f"  {name:<{width}}  {first}")
        for line in more:
            print(f"  {'':<{width}}  {line.strip()}")
    if not rows:
        print("  none")
    print()


def _interface(interface: dict[str, Any]) -> str:
    speed = f"{interface['megabits']} Mbit/s" if interface["megabits"] else ""
    return ", ".join(filter(None, [interface["state"], speed, *interface["addresses"]]))


# -------------------------------------------------------------------------------------------------- analysis


@app.command()
def algorithms(
    topology: Annotated[
        str, typer.Option("--topology", metavar="SPEC", help="On which steps, bytes and ports are counted.")
    ] = "ring:8",
    collective: Annotated[str | None, typer.Option(help="Only those that perform it.")] = None,
    as_json: Json = False,
) -> None:
    """List the algorithms, with what each costs on a network."""
    network = Topology(topology)
    shown = {
        (one.name, performed): _entry(one, network, performed)
        for algorithm in catalogue(network)
        for performed in algorithm.collectives
        if collective in (None, performed)
        for one in _shown(algorithm, network, performed)
    }
    entries = list(shown.values())
    if as_json:
        return _print_json(entries)
    print(f"on {network.spec}; sent: by the busiest rank, over all its ports, in units of the vector")
    print("consistent: whether all ranks end with the same bits for floats\n")
    columns = ["algorithm", "collective", "steps", "sent", "ports", "consistent", "needs"]
    print_table(columns, [[_cell(entry[c]) for c in columns] for entry in entries], right=["steps", "sent", "ports"])
    names = {entry["family"] for entry in entries}
    families = [algorithm for algorithm in catalogue() if algorithm.name in names]
    print()
    print_table(["algorithm", "what it does", "source"], [[_title(a), a.summary, a.source] for a in families])
    return None


def _shown(algorithm: Algorithm, network: Topology, collective: str) -> list[Algorithm]:
    """The algorithm where it performs the collective; its family where none of that does."""
    family = Algorithm(algorithm.name.partition(":")[0])
    if not family.supports(network, collective):
        return [family]
    return [algorithm] if algorithm.supports(network, collective) else []


def _entry(algorithm: Algorithm, network: Topology, collective: str) -> dict[str, Any]:
    offered = algorithm.supports(network, collective)
    steps, sent = algorithm.cost_line(network, collective) if offered else (None, None)
    return {
        "algorithm": algorithm.name,
        "family": algorithm.name.partition(":")[0],
        "collective": collective,
        "steps": steps,
        "sent": sent,
        "ports": algorithm.ports(network) if offered else None,
        "consistent": algorithm.consistent(network, collective) if offered else None,
        "needs": algorithm.requirement(collective),
        "source": algorithm.source,
    }


def _relays(built: Schedule, held: float) -> list[tuple[str, str]]:
    """What ranks pass on in an all-to-all takes memory, once for each chunk."""
    if not held:
        return []
    block = 1 << 12
    memory = built.lower(0, block, 1)[1] / block / built.ranks
    return [("held for others", f"{held:.3g} vectors at once at most; rank 0 takes memory for {memory:.3g}")]


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "-" if value is None else str(value)


def _title(algorithm: Algorithm) -> str:
    if algorithm.parameter is None:
        return algorithm.name
    return f"{algorithm.name}:{algorithm.parameter[0]}"


@app.command()
def schedule(
    name: Name,
    topology: On,
    collective: Collective = "allreduce",
    root: Root = 0,
    show: Annotated[bool, typer.Option("--show", help="Print every step.")] = False,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the schedule as JSON.")] = None,
    as_json: Json = False,
) -> None:
    """Build an algorithm's schedule for a topology, verify it and describe it."""
    network = Topology(topology)
    effort = _Effort()
    with effort.of("build"):
        built = Schedule.build(name, network, collective, root)
    with effort.of("verify"):
        built.verify()
    with effort.of("lower"):
        operations, _ = built.lower(0, network.ranks)
    cost, held = CostModel().cost(built, network, 0), built.held_for_others
    if save is not None:
        save.write_text(built.to_json())
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
        return _print_json(report | ({"schedule": json.loads(built.to_json())} if show else {}))
    times = ", ".join(f"{what} {seconds_text(seconds)}" for what, seconds in effort.seconds.items())
    _describe(
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
        print(f"\n{built}", end="")
    return None


class _Effort:
    """What stages take: seconds each, and together by how many bytes the process has grown at most."""

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


@app.command()
def cost(
    name: Name,
    topology: On,
    size: Annotated[str, typer.Option("--bytes", metavar="BYTES", help="The vector: 8, 64KiB, 1MiB, 2G.")],
    collective: Collective = "allreduce",
    root: Root = 0,
    step_latency: StepLatency = None,
    hop_latency: HopLatency = None,
    bandwidth: Bandwidth = None,
    reduce_cost: Annotated[float | None, typer.Option(help="Seconds to reduce a byte; unset: 0.")] = None,
    overlapped: Annotated[bool, typer.Option("--overlapped", help="Reduce while transfers go on.")] = False,
    as_json: Json = False,
) -> None:
    """Predict how long an algorithm takes."""
    network, length = Topology(topology), parse_bytes(size)
    model = CostModel(
        step_latency=step_latency,
        hop_latency=hop_latency,
        bandwidth=bandwidth,
        reduce_cost=reduce_cost,
        overlapped=overlapped,
    )
    result = model.cost(Schedule.build(name, network, collective, root), network, length)
    if as_json:
        head = {"algorithm": name, "collective": collective, "topology": network.spec, "bytes": length}
        return _print_json(head | _numbers(result) | {"max_link_load": result.max_link_load} | _deficiencies(result))
    _describe(
        f"{name}: {collective} of {bytes_text(length)} on {network.spec}",
        [
            ("time", seconds_text(result.seconds)),
            ("steps", str(result.steps)),
            ("hops", str(result.hops)),
            ("link load", f"{result.link_load:.4g} vectors"),
            ("latency deficiency, Lambda", f"{result.latency_deficiency:.4f}"),
            ("bandwidth deficiency, Psi", f"{result.bandwidth_deficiency:.4f}"),
            ("congestion deficiency, Xi", f"{result.congestion_deficiency:.4f}"),
            ("worst link, Psi Xi", f"{result.worst_link:.4f}"),
        ],
    )
    return None


def _describe(title: str, rows: list[tuple[str, str]]) -> None:
    print(title)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"  {name:<{width}}  {value}")


def _numbers(result: Cost) -> dict[str, Any]:
    return {
        "seconds": result.seconds,
        "steps": result.steps,
        "hops": result.hops,
        "link_load": result.link_load,
    }


def _deficiencies(result: Cost) -> dict[str, float]:
    return {
        "latency_deficiency": result.latency_deficiency,
        "bandwidth_deficiency": result.bandwidth_deficiency,
        "congestion_deficiency": result.congestion_deficiency,
        "worst_link": result.worst_link,
    }
