"""The lines of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

from ringroad._native import Topology
from ringroad.measure import race
from ringroad.measure.bench.contestant import Contestant
from ringroad.measure.bench.data import Case
from ringroad.measure.bench.peers import OURS, OURS_IN_TORCH
from ringroad.measure.bench.statistics import Statistics
from ringroad.measure.facts import Caches

Row = dict[str, Any]
"""One line of the record; `kind` is its kind."""
NOTHING = {"model": None, "simulated": None}
"""What is predicted of a call if nobody predicts."""


class Predictor(Protocol):
    """Predicts the times of calls, beside which they are shown."""

    def of(self, algorithm: str, case: Case, /) -> Mapping[str, float | None]:
        """The seconds of a call, by the keys of `NOTHING`."""


Predict = Callable[[Topology, Mapping[str, Any]], Predictor]
"""Makes a predictor for an emulated network and what the ranks say of themselves: their `model` and `segment`."""


def caches_of(rounds: list[tuple[Caches, Caches]]) -> Row:
    """Whether the CPUs shared a cache while a size was measured."""
    labels = [before.label if before.label == after.label else "mixed" for before, after in rounds]
    return {
        "cache": "unknown" if not labels else labels[0] if len(set(labels)) == 1 else "mixed",
        "cache_by_round": labels,
        "cache_nanoseconds": [[before.nanoseconds, after.nanoseconds] for before, after in rounds],
    }


def measurements(
    case: Case, contestants: list[Contestant], shared: Row, checked: bool, predictor: Predictor | None
) -> Iterator[Row]:
    statistics = {(c.peer, c.place): Statistics.of(np.stack(c.samples, axis=1)) for c in contestants}
    collective = case.collective
    for contestant in contestants:
        mine = statistics[contestant.peer, contestant.place]
        ours = statistics.get((OURS, contestant.place))
        theirs = statistics.get((OURS_IN_TORCH, contestant.place))
        algbw = case.size / mine.time
        yield {
            "kind": "measurement",
            "collective": collective.name,
            "peer": contestant.peer,
            "place": contestant.place,
            "ranks": case.ranks,
            "size": case.size,
            "count": case.count,
            "type": case.dtype,
            "redop": case.op if collective.reduces else "none",
            "root": case.root if collective.rooted else -1,
            "algorithm": ", ".join(contestant.ways) or None,
            **asdict(mine),
            "algbw": algbw,
            "busbw": algbw * collective.bus_factor(case.ranks),
            "wrong": contestant.wrong if checked else None,
            "ratio": race.ratio(mine.by_round, ours.by_round) if ours else None,
            "ratio_torch": race.ratio(mine.by_round, theirs.by_round) if theirs else None,
            **_predicted(predictor, contestant, case),
            **shared,
        }


def _predicted(predictor: Predictor | None, contestant: Contestant, case: Case) -> Row:
    """The predictions of the model and the simulator, if the contestant used one known algorithm."""
    known = predictor is not None and contestant.peer.split(":")[0] == OURS and len(contestant.ways) == 1
    return dict(predictor.of(contestant.ways[0], case)) if predictor and known else NOTHING
