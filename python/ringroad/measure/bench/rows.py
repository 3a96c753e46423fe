"""The lines of a record."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ringroad._native import Topology
from ringroad.measure import race
from ringroad.measure.bench.candidate import BenchCandidate, statistics_of
from ringroad.measure.bench.data import BenchCase
from ringroad.measure.bench.peers import OURS, OURS_IN_TORCH

Row = dict[str, Any]
"""One line of the record; `kind` is its kind."""
Predicted = Callable[[str, BenchCase], Mapping[str, float]]
"""The predicted seconds of a call by an algorithm: `model`, and `simulated`."""
Predict = Callable[[Topology, Mapping[str, Any]], Predicted]
"""Makes the predictions for an emulated network and what the ranks say of themselves: their `model` and `segment`."""


def measurements(
    case: BenchCase, candidates: list[BenchCandidate], shared: Row, checked: bool, predicted: Predicted | None
) -> Iterator[Row]:
    """The rows of one size."""
    statistics = {(c.peer, c.place): statistics_of(np.stack(c.samples, axis=1)) for c in candidates}
    collective = case.collective
    for candidate in candidates:
        mine = statistics[candidate.peer, candidate.place]
        ours = statistics.get((OURS, candidate.place))
        theirs = statistics.get((OURS_IN_TORCH, candidate.place))
        algbw = case.size / mine["time"]
        yield {
            "kind": "measurement",
            "collective": collective.name,
            "peer": candidate.peer,
            "place": candidate.place,
            "ranks": case.ranks,
            "size": case.size,
            "count": case.count,
            "type": case.dtype,
            "redop": case.op if collective.reduces else "none",
            "root": case.root if collective.rooted else -1,
            "algorithm": ", ".join(candidate.ways) or None,
            **mine,
            "algbw": algbw,
            "busbw": algbw * collective.bus_factor(case.ranks),
            "wrong": candidate.wrong if checked else None,
            "ratio": race.ratio(mine["by_round"], ours["by_round"]) if ours else None,
            "ratio_torch": race.ratio(mine["by_round"], theirs["by_round"]) if theirs else None,
            "model": None,
            "simulated": None,
            **(predicted(candidate.ways[0], case) if predicted and _is_predictable(candidate) else {}),
            **shared,
        }


def _is_predictable(candidate: BenchCandidate) -> bool:
    """Whether ringroad made the call, and by one algorithm only."""
    return candidate.peer.split(":")[0] == OURS and len(candidate.ways) == 1
