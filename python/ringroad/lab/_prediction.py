"""Predictions of the cost model and the simulator, to compare with measurements."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ringroad._native import CostModel, Schedule, Topology
from ringroad.lab._simulation import simulate
from ringroad.measure.bench.data import Case


class Prediction:
    """Predictions for one network and one model."""

    def __init__(self, topology: Topology, about: Mapping[str, Any]) -> None:
        """`about` has `model`, the coefficients, and `segment`, the most bytes of a message."""
        self.topology = topology
        self.model = CostModel(**about["model"])
        self.segment: int = about["segment"]
        self.of = cache(self._of)

    def _of(self, algorithm: str, case: Case) -> dict[str, float | None]:
        """Predicted seconds, by the model and by the simulator with free-running ranks."""
        schedule = Schedule.build(algorithm, self.topology, case.collective.name, case.root)
        simulated = simulate(
            schedule,
            self.topology,
            case.size,
            model=self.model,
            free_running=True,
            segment=self.segment,
            details=False,
        )
        return {
            "model": self.model.cost(schedule, self.topology, case.size).seconds,
            "simulated": simulated.seconds,
        }
