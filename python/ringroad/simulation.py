"""`ringroad.simulate`: runs a schedule on a model of the network, and records the timeline of every rank and link."""

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ringroad._native import CostModel, Outcome, Schedule, Topology
from ringroad._native import simulate as _simulate
from ringroad._text import bytes_text, parse_bytes, seconds_text


class Event(NamedTuple):
    """A message (at its sender or its receiver) or a reduction. Times are in seconds."""

    kind: Literal["send", "receive", "reduce"]
    rank: int
    peer: int
    step: int
    bytes: int
    message: int
    start: float
    end: float
    algorithm: str


class LinkLoad(NamedTuple):
    """The bytes that a link carried in a step, and the seconds that they take at its bandwidth."""

    step: int
    link: int
    source: int
    target: int
    bytes: float
    seconds: float


def simulate(
    schedule: Schedule | str,
    topology: Topology | str | int,
    bytes: int | str,
    *,
    collective: str = "allreduce",
    root: int = 0,
    model: CostModel | None = None,
    free_running: bool = False,
    store_and_forward: bool = False,
    late: Mapping[int, float] | None = None,
    slow_ranks: Mapping[int, float] | None = None,
    slow_links: Mapping[tuple[int, int], float] | None = None,
    failed_links: Iterable[tuple[int, int]] = (),
    replan: bool = False,
    skew: float = 0.0,
    seed: int = 0,
    eager: int | None = None,
    segment: int | None = None,
    details: bool = True,
) -> "Simulation":
    """Runs a schedule, or the schedule of an algorithm, on a model of the network. The executor of real calls runs
    every rank's plan; messages share links fairly.

        ringroad.simulate("swing", "torus:4x4", "1MiB").seconds

    In synchronous steps all messages of a step leave and arrive together, as the cost model assumes. `free_running`
    ranks wait only for the messages that they need, as real ranks do. Nodes forward a message while it arrives, or with
    `store_and_forward` when it is complete.

    `late`: by how many seconds ranks enter the call late. `skew`: all ranks enter at random times within this many
    seconds, drawn from `seed`. `slow_ranks`: the factor by which a rank's start-ups and reductions take longer.
    `slow_links`: the fraction of their bandwidth that the links from one node to another have. `failed_links` carry
    nothing, and messages go around them. `replan`: also simulate, as `replanned`, the algorithm that is the fastest by
    the model on the remaining network, among those that give all ranks the same bits.

    `eager`: messages longer than this (bytes; default 8 KiB) leave only when their receiver has posted a receive.
    `segment`: the maximum bytes of a message. `details=False` records neither events nor loads of steps, for thousands
    of ranks.

    Raises ScheduleError for invalid schedules, TopologyError if failed links leave no path, ValueError for other
    arguments.
    """
    network = _network(topology)
    if isinstance(schedule, str):
        schedule = Schedule.build(schedule, network, collective, root)
    length = parse_bytes(bytes) if isinstance(bytes, str) else bytes
    if length < 0:
        raise ValueError(f"a vector cannot have {length} bytes; give 0 or more")
    model = CostModel() if model is None else model
    failed = list(failed_links)
    if replan and not failed:
        raise ValueError("replan needs failed_links; name at least one link that has failed")
    if model.cores is not None and not model.over_links:
        raise ValueError(
            "copies in the memory of a host are not simulated; give a model without cores, or with over_links"
        )
    outcome = _simulate(
        schedule,
        network,
        length,
        list((late or {}).items()),
        list((slow_ranks or {}).items()),
        [(*ends, factor) for ends, factor in (slow_links or {}).items()],
        failed,
        model=model,
        pace="free" if free_running else "synchronous",
        forwarding="store-and-forward" if store_and_forward else "cut-through",
        skew=(skew, seed) if skew else None,
        eager=eager,
        segment=segment,
        details=details,
    )
    again = None
    if replan:
        left = network.without_links(failed, directed=True)
        choice = next(row for row in model.explain(schedule.collective, left, length) if row.consistent)
        again = simulate(
            Schedule.build(choice.algorithm, left, schedule.collective, schedule.root or 0),
            left,
            length,
            model=model,
            free_running=free_running,
            store_and_forward=store_and_forward,
            late=late,
            slow_ranks=slow_ranks,
            slow_links={ends: factor for ends, factor in (slow_links or {}).items() if ends not in failed},
            skew=skew,
            seed=seed,
            eager=eager,
            segment=segment,
            details=details,
        )
    return Simulation(schedule, network, length, model, free_running, outcome, again)


def _network(topology: Topology | str | int) -> Topology:
    if isinstance(topology, Topology):
        return topology
    return Topology(topology if isinstance(topology, str) else f"ring:{topology}")


@dataclass(frozen=True)
class Simulation:
    """The result of `ringroad.simulate`. A notebook shows it as a table."""

    schedule: Schedule
    topology: Topology
    bytes: int
    model: CostModel
    free_running: bool
    _outcome: Outcome
    replanned: "Simulation | None" = None
    """The simulation of the best algorithm on the network without its failed links, if `replan` was given."""

    @property
    def seconds(self) -> float:
        """The time at which the last rank is done, in seconds."""
        return self._outcome.seconds

    @property
    def finished(self) -> list[float]:
        """The time at which each rank is done, in seconds."""
        return self._outcome.finished

    @property
    def step_ends(self) -> list[float]:
        """The time at which the last operation of each step is done, in seconds; 0 for a step without operations."""
        return self._outcome.step_ends

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.schedule.ranks

    @property
    def steps(self) -> int:
        """The number of steps of the schedule."""
        return self.schedule.steps

    @property
    def dividers(self) -> list[float]:
        """The ends of synchronous steps, in seconds; empty for a free-running simulation."""
        return [] if self.free_running else self.step_ends

    @property
    def messages(self) -> int:
        """The number of messages sent."""
        return self._outcome.messages

    @property
    def predicted(self) -> float:
        """The cost model's time for the same schedule on the network without failures, in seconds."""
        return self.model.cost(self.schedule, self.topology, self.bytes).seconds

    @property
    def loads(self) -> list[float]:
        """The bytes that each of the topology's links carried."""
        return self._outcome.loads

    @property
    def link_loads(self) -> list[LinkLoad]:
        """The bytes of every link in every step, without links that carried nothing. Empty without details."""
        links, speeds = self.topology.links, self._bandwidths()
        return [
            LinkLoad(step, link, links[link][0], links[link][1], load, load / speeds[link])
            for step, loads in enumerate(self._outcome.step_loads)
            for link, load in loads
        ]

    def _bandwidths(self) -> list[float]:
        """Bytes per second of every link without failures."""
        stated = self.model.bandwidth
        return [(stated or bandwidth) * capacity for _, _, bandwidth, capacity, _, _ in self.topology._links()]

    @property
    def events(self) -> list[Event]:
        """The timeline, ordered by the start of its events. Empty without details."""
        return [Event(*event) for event in self._outcome.events]  # type: ignore[arg-type]

    def df(self) -> Any:
        """The timeline as a pandas.DataFrame, a row for each event."""
        return _pandas().DataFrame(self.events, columns=Event._fields)

    def link_df(self) -> Any:
        """The loads of links as a pandas.DataFrame, a row for each link and step."""
        return _pandas().DataFrame(self.link_loads, columns=LinkLoad._fields)

    def save_trace(self, path: str | Path) -> None:
        """Writes the timeline as JSON, an object for each event."""
        Path(path).write_text(self._outcome.trace_json())

    def save_chrome_trace(self, path: str | Path) -> None:
        """Writes the timeline for ui.perfetto.dev or chrome://tracing."""
        Path(path).write_text(self._outcome.chrome_trace())

    def plot(self, what: Literal["timeline", "links"] = "timeline", **options: Any) -> Any:
        """A matplotlib figure: each rank's timeline, or the loads of the links step by step.

        Options are those of `ringroad.viz.timeline` and `ringroad.viz.link_loads`."""
        from ringroad import viz

        match what:
            case "timeline":
                return viz.timeline(self, **options)
            case "links":
                return viz.link_loads(self, **options)
        raise ValueError(f"unknown picture {what!r}; choose timeline or links")

    def rows(self) -> list[tuple[str, str]]:
        """The results as (name, text)."""
        pace = "freely" if self.free_running else "in synchronous steps"
        ratio = self.seconds / self.predicted if self.predicted else 1.0
        links, loads = self.topology.links, self.loads
        busiest = max(range(len(links)), key=loads.__getitem__, default=None)
        rows = [
            ("time", f"{seconds_text(self.seconds)}, {pace}"),
            ("cost model", f"{seconds_text(self.predicted)} (simulated: {ratio:.2f}x)"),
            ("steps", str(self.schedule.steps)),
            ("messages", str(self.messages)),
        ]
        if self.finished:
            rows.append(("first rank done", seconds_text(min(self.finished))))
        if busiest is not None and self.seconds:
            share = loads[busiest] / self._bandwidths()[busiest] / self.seconds
            ends = f"{links[busiest][0]}→{links[busiest][1]}"
            rows.append(("busiest link", f"{ends}, {bytes_text(round(loads[busiest]))}, {share:.0%} of the time"))
        if self.replanned is not None:
            again = self.replanned
            ratio = self.seconds / again.seconds if again.seconds else 1.0
            rows.append(("replanned", f"{seconds_text(again.seconds)} by {again.schedule.name} ({ratio:.2f}x as fast)"))
        return rows

    @property
    def title(self) -> str:
        """One line that says what was simulated."""
        schedule = self.schedule
        return f"{schedule.name}: {schedule.collective} of {bytes_text(self.bytes)} on {self.topology.spec}"

    def __repr__(self) -> str:
        return f"<Simulation {self.title}: {seconds_text(self.seconds)}>"

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(text)}</td></tr>"
            for name, text in self.rows()
        )
        return f"<table><caption>{escape(self.title)}</caption>{cells}</table>"


def _pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError:
        raise ImportError("a DataFrame needs pandas: pip install pandas; `events` and `link_loads` do not") from None
