"""Why an algorithm was chosen, in words."""

from collections.abc import Sequence
from typing import Protocol

from ringroad._native import CostModel
from ringroad._support.text import bytes_text, seconds_text, significant

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


class Simulated(Protocol):
    """An algorithm, and what it takes where ranks do not wait for each other."""

    @property
    def algorithm(self) -> str: ...
    @property
    def free_seconds(self) -> float | None: ...


class Explained(Protocol):
    """What is put into words: an `Explanation`."""

    @property
    def topology(self) -> str: ...
    @property
    def collective(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def range(self) -> tuple[int, int | None]: ...
    @property
    def model(self) -> CostModel: ...
    @property
    def candidates(self) -> Sequence[Simulated]: ...
    @property
    def runner_up(self) -> str | None: ...
    @property
    def margin(self) -> float | None: ...
    @property
    def terms(self) -> dict[str, float] | None: ...
    @property
    def runner_up_terms(self) -> dict[str, float] | None: ...
    @property
    def runner_up_bytes(self) -> tuple[int, int | None] | None: ...
    @property
    def factors(self) -> dict[str, float]: ...


def text(found: Explained) -> str:
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


def _simulated(found: Explained, algorithm: str) -> float | None:
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


def _terms(found: Explained) -> list[str]:
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


def _changes(found: Explained) -> list[str]:
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
