"""`ringroad.simulate`: a schedule on a model of the network, with what every rank and every link does when."""

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
    """A message as its sender or its receiver sees it, or a reduction. Times in seconds."""

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
    """What a link carried in a step, and how long that takes at its bandwidth."""

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
    """Runs a schedule, or an algorithm's, on a model of the network: every rank's plan by the executor that runs real
    calls, with messages that share links fairly.

        ringroad.simulate("swing", "torus:4x4", "1MiB").seconds

    In synchronous steps all messages of a step leave and arrive together, as the cost model assumes; `free_running`
    ranks wait only for what they need, as real ones do. Nodes pass messages on as they come, or when they are complete.

    `late`: by how many seconds ranks enter the call later than others; `skew`: all of them by up to so many seconds,
    by chance from `seed`. `slow_ranks`: how many times as long their processors take. `slow_links`: which fraction of
    their bandwidth the links from one node to another have; `failed_links` carry nothing, and messages go around them.
    `replan`: also simulate, as `replanned`, the algorithm that the model finds the fastest on the network that is left,
    among those that give all ranks the same bits.

    `eager`: longer messages (bytes; default 8 KiB) do not leave before their receiver has room. `segment`: the most
    bytes in one message. `details=False` keeps neither events nor loads of single steps, for thousands of ranks.

    Raises ScheduleError for schedules that are wrong, TopologyError where no way is left, ValueError for the rest.
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
        raise ValueError("there is nothing to replan where no link has failed; name failed links")
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
    """What happened; see `ringroad.simulate`. In a notebook it shows itself."""

    schedule: Schedule
    topology: Topology
    bytes: int
    model: CostModel
    free_running: bool
    _outcome: Outcome
    replanned: "Simulation | None" = None
    """The best algorithm on the network that failures have left, if that was asked for."""

    @property
    def seconds(self) -> float:
        """When the last rank was done."""
        return self._outcome.seconds

    @property
    def finished(self) -> list[float]:
        """When each rank was done."""
        return self._outcome.finished

    @property
    def step_ends(self) -> list[float]:
        """When the last operation of each step was done; 0 where it has none."""
        return self._outcome.step_ends

    @property
    def ranks(self) -> int:
        """How many take part."""
        return self.schedule.ranks

    @property
    def steps(self) -> int:
        """How many the schedule has."""
        return self.schedule.steps

    @property
    def dividers(self) -> list[float]:
        """When steps end that are synchronous."""
        return [] if self.free_running else self.step_ends

    @property
    def messages(self) -> int:
        """How many messages were sent."""
        return self._outcome.messages

    @property
    def predicted(self) -> float:
        """What the cost model says of the same schedule on the network as it should be."""
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
        """Bytes per second of every link as it should be."""
        stated = self.model.bandwidth
        return [(stated or bandwidth) * capacity for _, _, bandwidth, capacity, _, _ in self.topology._links()]

    @property
    def events(self) -> list[Event]:
        """The timeline, by the beginning of its events. Empty without details."""
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
        """A matplotlib figure: each rank's timeline, or what the links carry step by step.

        Options are those of `ringroad.viz.timeline` and `ringroad.viz.link_loads`."""
        from ringroad import viz

        match what:
            case "timeline":
                return viz.timeline(self, **options)
            case "links":
                return viz.link_loads(self, **options)
        raise ValueError(f"unknown picture {what!r}; choose timeline or links")

    def rows(self) -> list[tuple[str, str]]:
        """The figures as (name, text)."""
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
