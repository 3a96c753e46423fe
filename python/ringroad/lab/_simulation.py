"""Runs a schedule on a model of the network, and records the timeline of every rank and link."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ringroad._native import CostModel, Schedule, Topology
from ringroad._native import simulate as _simulate
from ringroad._notebook import frame, table
from ringroad._support.text import by_key, bytes_text, check_class, items, length, seconds_text
from ringroad.measure.traces import TraceEvent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ringroad._native import Outcome


@dataclass(frozen=True)
class LinkLoad:
    """The bytes that a link carried in a step.

    Attributes:
        step: The step of the schedule, from 0.
        link: The link's index in `Topology.links`.
        source: The node where the link starts.
        target: The node where it ends.
        bytes: What it carried.
        seconds: How long that takes at the link's bandwidth.
    """

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
    """Runs a schedule, or the schedule of an algorithm, on a model of the network.

    The executor of real calls runs every rank's plan; messages share links with max-min fairness. In synchronous
    steps all messages of a step leave and arrive together, as the cost model assumes.

    Args:
        schedule: A `Schedule`, or an algorithm's name.
        topology: A `Topology`, a spec, or a number of ranks, which stands for a ring.
        bytes: The length of the vector: a number of bytes, or a text such as "1MiB".
        collective: What an algorithm named by `schedule` performs.
        root: The root of a broadcast, reduce, gather or scatter.
        model: The cost model that says how long things take. None: `CostModel()`.
        free_running: True: ranks wait only for the messages that they need, as real ranks do.
        store_and_forward: True: nodes forward a message when it is complete; else while it arrives.
        late: The seconds by which ranks enter the call later than others, by rank.
        slow_ranks: How many times as long the ranks' processors take to start steps, to send and accept messages and
            to reduce, by rank.
        slow_links: The fraction of their bandwidth that links have, by their source and target nodes.
        failed_links: Pairs of source and target whose links carry nothing. Messages go around them.
        replan: True: also simulate the algorithm that the model finds the fastest on the network that failed links
            have left, among those that give all ranks the same bits. The result is in `Simulation.replanned`.
        skew: All ranks are late by a random time of up to this many seconds.
        seed: The seed of the random times.
        eager: Longer messages, in bytes, are not sent before their receiver has room. None: 8 KiB.
        segment: The most bytes of one message. None: 512 KiB.
        details: False: keep neither events nor loads of single steps; for thousands of ranks.

    Returns:
        A `Simulation`. The same arguments give the same bits on every machine.

    Raises:
        ScheduleError: The schedule is wrong, or the algorithm is unknown or does not run on this network.
        TopologyError: The topology is malformed, or failed links leave no path.
        ValueError: Another argument is invalid.

    Example:
        >>> done = ringroad.lab.simulate("swing", "torus:4x4", "1MiB")
        >>> done.messages, done.steps, done.seconds < 1e-3
        (512, 8, True)
    """
    network = Topology(topology)
    if isinstance(schedule, str):
        schedule = Schedule.build(schedule, network, collective, root)
    size = length("bytes", bytes)
    model = CostModel() if model is None else model
    check_class("model", model, CostModel)
    failed = items("failed_links", failed_links)
    if replan and not failed:
        raise ValueError("replan needs failed_links; name at least one link that has failed")
    if model.cores is not None and not model.over_links:
        raise ValueError(
            "copies in the memory of a host are not simulated; give a model without cores, or with over_links"
        )
    outcome = _simulate(
        schedule,
        network,
        size,
        by_key("late", late),
        by_key("slow_ranks", slow_ranks),
        [(*ends, factor) for ends, factor in by_key("slow_links", slow_links)],
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
        choice = model.explain(schedule.collective, left, size)
        # In synchronous steps, costs are the times.
        rows = [row for row in choice.candidates if row.bit_identical] or choice.candidates
        best = choice.algorithm if free_running else min(rows, key=lambda row: row.seconds).algorithm
        again = simulate(
            Schedule.build(best, left, schedule.collective, schedule.root or 0),
            left,
            size,
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
    asked = (schedule, network, size, model, free_running, tuple(failed))
    return Simulation(
        *asked,
        **outcome.report(),
        busiest_links=outcome.busiest_links(network, model),
        predicted=model.cost(schedule, network, size).seconds,
        replanned=again,
        _outcome=outcome,
    )


@dataclass(frozen=True)
class Simulation:
    """The result of `ringroad.lab.simulate`. In a notebook it shows itself. All times are in seconds from the
    beginning.

    Attributes:
        schedule: The schedule that was run.
        topology: The network without failures.
        bytes: The length of the vector in bytes.
        model: The cost model that says how long things take.
        free_running: Whether ranks waited only for the messages that they needed.
        failed_links: Source and target of the links that carried nothing.
        seconds: The time at which the last rank was done.
        finished: The time at which each rank was done.
        step_ends: The time at which the last operation of each step was done; 0 for a step without operations.
        messages: The number of messages that were sent.
        loads: The bytes that each link carried, in the order of `Topology.links`.
        busiest_links: For each step the link that needs the longest time; None if none carried anything, and without
            details.
        predicted: The cost model's time for the same schedule on the network without failures, in seconds.
        replanned: The simulation of the best algorithm on the network that failed links have left, if it was asked
            for.
    """

    schedule: Schedule
    topology: Topology
    bytes: int
    model: CostModel
    free_running: bool
    failed_links: tuple[tuple[int, int], ...]
    seconds: float
    finished: list[float]
    step_ends: list[float]
    messages: int
    loads: list[float]
    busiest_links: list[LinkLoad | None]
    predicted: float
    replanned: "Simulation | None"
    _outcome: "Outcome" = field(repr=False, compare=False)

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
        """The ends of synchronous steps; empty for a free-running simulation."""
        return [] if self.free_running else self.step_ends

    @property
    def divider(self) -> str:
        """What `dividers` are, in words."""
        return "end of a step"

    @property
    def link_loads(self) -> list[LinkLoad]:
        """The bytes of every link in every step, without links that carried nothing. Empty without details."""
        loads: list[LinkLoad] = self._outcome.link_loads(self.topology, self.model)
        return loads

    def _bandwidths(self) -> list[float]:
        """Bytes per second of every link without failures."""
        stated = self.model.bandwidth
        return [(stated or bandwidth) * capacity for _, _, bandwidth, capacity, _, _ in self.topology._links()]

    @property
    def events(self) -> list[TraceEvent]:
        """The timeline, ordered by the start of its events. Empty without details."""
        events: list[TraceEvent] = self._outcome.events()
        return events

    def df(self) -> Any:
        """Returns the timeline as a pandas.DataFrame with a row for each event.

        Raises:
            ImportError: pandas is not installed.
        """
        return frame(self.events, TraceEvent._fields)

    def link_df(self) -> Any:
        """Returns the loads of links as a pandas.DataFrame with a row for each link and step.

        Raises:
            ImportError: pandas is not installed.
        """
        return frame(self.link_loads, [field.name for field in fields(LinkLoad)])

    def save_trace(self, path: str | Path) -> None:
        """Writes the timeline as JSON, an object for each event.

        Args:
            path: The file to write.
        """
        Path(path).write_text(self._outcome.trace_json())

    def save_chrome_trace(self, path: str | Path) -> None:
        """Writes the timeline for ui.perfetto.dev and chrome://tracing.

        Args:
            path: The file to write.
        """
        Path(path).write_text(self._outcome.chrome_trace())

    def plot(self, what: Literal["timeline", "links"] = "timeline", **options: Any) -> "Figure":
        """Draws each rank's timeline, or the loads of the links step by step. Needs matplotlib.

        Args:
            what: "timeline" or "links".
            options: Those of `ringroad.lab.viz.timeline` or `ringroad.lab.viz.link_loads`.

        Returns:
            A matplotlib figure.

        Raises:
            ValueError: `what` is something else, or the simulation has no details.
        """
        from ringroad.lab import viz

        match what:
            case "timeline":
                return viz.timeline(self, **options)
            case "links":
                return viz.link_loads(self, **options)
        raise ValueError(f"unknown picture {what!r}; expected timeline or links")

    def rows(self) -> list[tuple[str, str]]:
        """Returns the results as tuples of a name and a text."""
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
        return table(self.title, self.rows())
