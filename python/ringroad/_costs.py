"""What the cost model says: costs of schedules, candidates for a call, and why one of them was chosen.

These classes have the fields of the core's structs of the same names: the extension makes their objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from ringroad._native import CostModel
from ringroad._notebook import frame, table
from ringroad._support.text import bytes_text, seconds_text, significant

if TYPE_CHECKING:
    from ringroad._native import CollectiveName

COLUMNS = ("algorithm", "time", "simulated", "vs best", "steps", "hops", "link load", "bit-identical")
"""The titles of `Candidate.cells`."""
NUMBERS = COLUMNS[1:-1]
_SHOWN = 8
"""The candidates of an explanation that a notebook shows."""
_ORIGINS = {
    "model": "the fastest by the cost model",
    "measured": "measured to be the fastest",
    "rules": "by a rule of RINGROAD_TUNER_FILE",
    "only": "no other algorithm is allowed",
}
_TERMS = {
    "steps": "starting steps",
    "messages": "further messages",
    "incast": "messages that meet at a port",
    "hops": "hops",
    "bytes": "bytes on links",
    "reduction": "reducing",
}


@dataclass(frozen=True, repr=False)
class Cost:
    """What the cost model says of a schedule on a network: it takes `fixed + per_byte * bytes` seconds.

    The deficiencies compare the schedule with the optimum, as in De Sensi et al., Swing, NSDI 2024
    (arXiv 2401.09356), section 2.2: an allreduce of n bytes on a torus of D dimensions needs at least
    log2(ranks) steps, and at least n / D bytes by every port. 1 is optimal.

    Attributes:
        seconds: The time of the schedule for this many bytes, in seconds.
        fixed: The part of the time that does not depend on the bytes, in seconds.
        per_byte: The seconds that each byte of the vector adds.
        steps: The number of steps.
        hops: The sum over the steps of the longest route's hops.
        link_load: The sum over the steps of what the most loaded link of the step carries, in units of the vector.
        max_link_load: What the most loaded link carries over the whole schedule, in units of the vector.
        latency_deficiency: Lambda: the steps, over log2(ranks).
        bandwidth_deficiency: Psi: what the busiest port of each step sends, summed over the steps, over the least it
            must send.
        congestion_deficiency: Xi: what the most loaded link of each step carries, summed over the steps, over what
            the busiest port sends.
        worst_link: Psi * Xi: what the most loaded link of each step carries, summed over the steps, over the least
            that a port must send.
    """

    seconds: float
    fixed: float
    per_byte: float
    steps: int
    hops: int
    link_load: float
    max_link_load: float
    latency_deficiency: float
    bandwidth_deficiency: float
    congestion_deficiency: float
    worst_link: float

    def df(self) -> Any:
        """Returns the fields as a pandas.DataFrame with one row.

        Raises:
            ImportError: pandas is not installed.
        """
        return _frame([self], type(self))

    def rows(self) -> list[tuple[str, str]]:
        """Returns the fields as tuples of a name and a text."""
        return [
            ("time", seconds_text(self.seconds)),
            ("fixed", seconds_text(self.fixed)),
            ("per byte", f"{1e9 * self.per_byte:.4g} ns"),
            ("steps", str(self.steps)),
            ("hops", str(self.hops)),
            ("link load, step by step", f"{self.link_load:.4g} of the message"),
            ("link load, whole schedule", f"{self.max_link_load:.4g} of the message"),
            ("latency deficiency, Lambda", f"{self.latency_deficiency:.4f}"),
            ("bandwidth deficiency, Psi", f"{self.bandwidth_deficiency:.4f}"),
            ("congestion deficiency, Xi", f"{self.congestion_deficiency:.4f}"),
            ("worst link, Psi Xi", f"{self.worst_link:.4f}"),
        ]

    def __repr__(self) -> str:
        return f"<Cost: {self._brief()}>"

    def _brief(self) -> str:
        return f"{seconds_text(self.seconds)}, {self.steps} steps, {self.hops} hops, link load {self.link_load:.4g}"

    def _repr_html_(self) -> str:
        return table("cost", self.rows())


@dataclass(frozen=True, repr=False)
class Candidate(Cost):
    """One algorithm's cost, as `Explanation.candidates` lists them: a `Cost` and four more fields.

    Attributes:
        algorithm: The algorithm's name.
        bit_identical: Whether all ranks end with the same bits after a sum of floats.
        free_seconds: The time where ranks do not wait for each other between steps, from simulations of this and
            similar sizes; None where it was not simulated.
        ratio: `free_seconds`, or `seconds` where that is None, in units of that of the fastest.
    """

    algorithm: str
    bit_identical: bool
    free_seconds: float | None
    ratio: float

    def rows(self) -> list[tuple[str, str]]:
        """Returns the fields as tuples of a name and a text."""
        bit_identical = "the same bits on all ranks" if self.bit_identical else "not the same bits on all ranks"
        own = [
            ("algorithm", self.algorithm),
            ("sums of floats", bit_identical),
            ("simulated", self._simulated()),
            ("vs the fastest", f"{self.ratio:.2f}x"),
        ]
        return own + super().rows()

    def cells(self) -> list[str]:
        """Returns what tables of candidates show, as text."""
        return [
            self.algorithm,
            seconds_text(self.seconds),
            self._simulated(),
            f"{self.ratio:.2f}x",
            str(self.steps),
            str(self.hops),
            f"{self.link_load:.4g}",
            "yes" if self.bit_identical else "no",
        ]

    def _simulated(self) -> str:
        return "-" if self.free_seconds is None else seconds_text(self.free_seconds)

    def __repr__(self) -> str:
        return f"<Candidate {self.algorithm}: {self._brief()}, {self.ratio:.2f}x>"

    def _repr_html_(self) -> str:
        return table("candidate", self.rows())


FORMAT_COLUMNS = ("format", "algorithm", "time", "bytes sent", "roundings", "error at most")
"""The titles of `FormatCost.cells`."""


@dataclass(frozen=True)
class FormatCost:
    """A wire format, and the fastest algorithm with it, as `CostModel.formats` returns them.

    Attributes:
        wire: The format; "exact" where elements are sent as they are.
        algorithm: The algorithm.
        seconds: What it is predicted to take, with encoding and decoding.
        bytes: The bytes that are sent for a vector.
        roundings: The most roundings on the way of a rank's value into the result.
        bound: The most by which the result differs from the exact one, as a fraction of the sum of the ranks' largest
            magnitudes; of bf16, for magnitudes from 1.2e-38 to 3.38e38.
    """

    wire: str
    algorithm: str
    seconds: float
    bytes: int
    roundings: int
    bound: float

    def cells(self) -> list[str]:
        """Returns what tables of formats show, as text."""
        bound = "0" if self.bound == 0 else f"{self.bound:.2g}"
        sent = bytes_text(self.bytes)
        return [self.wire, self.algorithm, seconds_text(self.seconds), sent, str(self.roundings), bound]


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why an algorithm was chosen. `print` shows it in words. Times are in seconds.

    `comm.explain`, `CostModel.explain` and `Profile.explain` return it. In a notebook it shows itself.

    Attributes:
        topology: The spec of the network.
        collective: The collective.
        bytes: The length of the vector in bytes.
        algorithm: The algorithm that is chosen.
        origin: What chose it: "model", "measured" (a profile), "rules" (RINGROAD_TUNER_FILE) or "only" (no other is
            allowed).
        range: The smallest and the largest number of bytes for which it is chosen; None: there is no largest.
        model: The `CostModel` that predicts the times.
        candidates: A `Candidate` for each algorithm that can run, the fastest first. For floats, only those that give
            all ranks the same bits (`bit_identical`) are chosen. Those that were simulated compete by `free_seconds`;
            those that would take too long to simulate compete by `seconds`; those that cannot be the fastest do not
            compete.
        runner_up: The fastest of the others that may be chosen; None if there is no other.
        margin: How much longer the runner-up takes, as a fraction of the chosen algorithm's time. Negative if the
            runner-up is predicted to be faster.
        terms: The chosen algorithm's seconds by their cause: "steps", "messages", "incast", "hops", "bytes",
            "reduction".
        runner_up_terms: The runner-up's seconds by their cause, as in `terms`.
        runner_up_bytes: The smallest and the largest number of bytes for which the runner-up is faster; None: it
            never is.
        factors: By cause: if it took this many times as long, for all algorithms, both algorithms would be equally
            fast.

    Example:
        >>> found = ringroad.CostModel().explain("allreduce", "torus:8x8", 1 << 20)
        >>> print(str(found).splitlines()[0])
        allreduce of 1 MiB on torus:8x8: bfb-ring
    """

    topology: str
    collective: "CollectiveName"
    bytes: int
    algorithm: str
    origin: Literal["model", "measured", "rules", "only"]
    range: tuple[int, int | None]
    model: CostModel
    candidates: list[Candidate]
    runner_up: str | None
    margin: float | None
    terms: dict[str, float] | None
    runner_up_terms: dict[str, float] | None
    runner_up_bytes: tuple[int, int | None] | None
    factors: dict[str, float]

    def df(self) -> Any:
        """Returns the candidates as a pandas.DataFrame with a row for each.

        Raises:
            ImportError: pandas is not installed.
        """
        return _frame(self.candidates, Candidate)

    def __str__(self) -> str:
        return _text(self)

    def __repr__(self) -> str:
        return f"<Explanation of {self.collective}, {bytes_text(self.bytes)}: {self.algorithm} ({self.origin})>"

    def _repr_html_(self) -> str:
        title, *reasons = str(self).splitlines()
        shown = [c for i, c in enumerate(self.candidates) if i < _SHOWN or c.algorithm == self.algorithm]
        left_out = len(self.candidates) - len(shown)
        if left_out:
            reasons.append(f"  {left_out} more candidates in .df()")
        rows = [candidate.cells() for candidate in shown]
        return table(title, rows, COLUMNS, right=NUMBERS, strong=self.algorithm, below="\n".join(reasons))


@dataclass(frozen=True)
class SwitchRange:
    """The algorithm for all sizes up to the next range.

    Attributes:
        from_bytes: The first size.
        algorithm: The algorithm that is chosen.
        origin: What chose it, as in `Explanation`.
    """

    from_bytes: int
    algorithm: str
    origin: Literal["model", "measured", "rules", "only"]


@dataclass(frozen=True)
class Overview:
    """The choice of algorithms for a collective, by size. `CostModel.compare` and `Profile.compare` return it.

    Attributes:
        collective: The collective.
        topology: The spec of the network.
        sizes: The `Explanation` of the choice for floats, for each size that was asked for.
        switch_points: The ranges of sizes in ascending order, for "floats" and for "integers", of which all algorithms
            give all ranks the same bits.
    """

    collective: "CollectiveName"
    topology: str
    sizes: list[Explanation]
    switch_points: dict[Literal["floats", "integers"], list[SwitchRange]]


def _frame(costs: Sequence[Cost], kind: type[Cost]) -> Any:
    """A row for each cost. What a candidate has more comes first."""
    common = [field.name for field in fields(Cost)]
    own = [field.name for field in fields(kind) if field.name not in common]
    return frame(costs, own + common)


# ------------------------------------------------------------------------------------------------ in words


def _text(found: Explanation) -> str:
    """Lines that say which algorithm runs, why, and what would change the choice."""
    lines = [f"{found.collective} of {bytes_text(found.bytes)} on {found.topology}: {found.algorithm}"]
    by_simulation = found.origin == "model" and _simulated(found, found.algorithm) is not None
    lines.append(f"  {'the fastest by simulation' if by_simulation else _ORIGINS[found.origin]}, {_range(found.range)}")
    if found.runner_up is None or found.margin is None:
        return "\n".join(lines)
    by = "simulation" if _simulated(found, found.runner_up) is not None else "the cost model"
    lines.append(f"  {_margin(found.runner_up, found.margin)} by {by}:")
    lines += [f"    {line}" for line in _terms(found)]
    changes = _changes(found)
    if found.margin <= 0:
        if found.margin < 0 and not by_simulation:
            lines.append(f"  the cost model alone would choose {found.runner_up}")
        return "\n".join(lines)
    if changes:
        lines.append(f"  {found.runner_up} would be the faster one")
        lines += [f"    {change}" for change in changes]
    else:
        lines.append(f"  no size, latency or bandwidth makes {found.runner_up} the faster one")
    return "\n".join(lines)


def _simulated(found: Explanation, algorithm: str) -> float | None:
    """What an algorithm takes where ranks do not wait for each other, if that is known."""
    return next((row.free_seconds for row in found.candidates if row.algorithm == algorithm), None)


def _range(range_: tuple[int, int | None]) -> str:
    first, last = range_
    if last is None:
        return "for all sizes" if first == 0 else f"from {bytes_text(first)} on"
    return f"from {bytes_text(first)} to {bytes_text(last)}"


def _margin(runner_up: str, margin: float) -> str:
    if margin == 0:
        return f"{runner_up}, which the catalogue has later, takes as long"
    if margin < 0:
        return f"{runner_up} takes {significant(-100 * margin)} % less"
    return f"{runner_up} takes {significant(100 * margin)} % longer"


def _terms(found: Explanation) -> list[str]:
    """A table of both algorithms' times, term by term, largest difference first. Leaves out terms that are 0 for
    both."""
    ours, theirs = found.terms or {}, found.runner_up_terms or {}
    rows = [(_TERMS[name], ours[name], theirs[name]) for name in _TERMS if max(ours[name], theirs[name]) > 0]
    rows.sort(key=lambda row: -abs(row[2] - row[1]))
    rows.append(("together", sum(ours.values()), sum(theirs.values())))
    cells = [("", found.algorithm, found.runner_up or "")]
    cells += [(name, seconds_text(a), seconds_text(b)) for name, a, b in rows]
    simulated = [_simulated(found, name) for name in (found.algorithm, found.runner_up or "")]
    if any(seconds is not None for seconds in simulated):
        a, b = ("-" if seconds is None else seconds_text(seconds) for seconds in simulated)
        cells.append(("simulated", a, b))
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    return [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in cells]


def _changes(found: Explanation) -> list[str]:
    """The changes that would make the runner-up the faster one; each suffices on its own."""
    changes = []
    if found.runner_up_bytes is not None:
        first, last = found.runner_up_bytes
        changes.append(f"from {bytes_text(first)} on" if last is None else f"up to {bytes_text(last)}")
    changes += [f"if {_factor(name, factor, found.model)}" for name, factor in found.factors.items()]
    return changes


def _factor(name: str, factor: float, model: CostModel) -> str:
    """The change that makes a term take `factor` times as long."""
    if name == "steps" and model.step_latency > 0:
        return f"starting a step took {_instead(model.step_latency, factor)}"
    if name == "messages" and model.message_latency > 0:
        return f"a further message took {_instead(model.message_latency, factor)}"
    if name == "incast" and model.incast_latency > 0:
        return f"another sender to a port took {_instead(model.incast_latency, factor)}"
    if name == "hops" and model.hop_latency:
        return f"a hop took {_instead(model.hop_latency, factor)}"
    if name == "bytes":
        if model.bandwidth:
            now, then = model.bandwidth / 1e9, model.bandwidth / factor / 1e9
            return f"links carried {significant(then)} GB/s instead of {significant(now)} GB/s"
        return f"links were {significant(max(factor, 1 / factor))} times as {'slow' if factor >= 1 else 'fast'}"
    if name == "reduction" and model.reduce_cost > 0:
        now, then = 1e-9 / model.reduce_cost, 1e-9 / model.reduce_cost / factor
        return f"ranks reduced {significant(then)} GB/s instead of {significant(now)} GB/s"
    if factor >= 1:
        return f"{_TERMS[name]} took {significant(factor)} times as long"
    return f"{_TERMS[name]} took {significant(100 * factor)} % of the time"


def _instead(seconds: float, factor: float) -> str:
    return f"{seconds_text(seconds * factor)} instead of {seconds_text(seconds)}"
