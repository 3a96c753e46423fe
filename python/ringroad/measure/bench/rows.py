"""The lines of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ringroad._native import Topology
from ringroad.measure import race
from ringroad.measure.bench.contestant import Contestant, Statistics
from ringroad.measure.bench.data import BenchCase
from ringroad.measure.bench.peers import OURS, OURS_IN_TORCH

Row = dict[str, Any]
"""One line of the record; `kind` is its kind."""
Predicted = Callable[[str, BenchCase], Mapping[str, float]]
"""The predicted seconds of a call by an algorithm: `model`, and `simulated`."""
Predict = Callable[[Topology, Mapping[str, Any]], Predicted]
"""Makes the predictions for an emulated network and what the ranks say of themselves: their `model` and `segment`."""


def measurements(
    case: BenchCase, contestants: list[Contestant], shared: Row, checked: bool, predicted: Predicted | None
) -> Iterator[Row]:
    """The rows of one size."""
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
            "model": None,
            "simulated": None,
            **(predicted(contestant.ways[0], case) if predicted and _is_predictable(contestant) else {}),
            **shared,
        }


def _is_predictable(contestant: Contestant) -> bool:
    """Whether ringroad made the call, and by one algorithm only."""
    return contestant.peer.split(":")[0] == OURS and len(contestant.ways) == 1
