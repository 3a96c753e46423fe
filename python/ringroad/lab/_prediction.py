"""Predictions of the cost model and the simulator, to compare with measurements."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from ringroad._native import CostModel, Schedule, Topology
from ringroad.lab._simulation import simulate
from ringroad.measure.bench.data import BenchCase


def prediction(topology: Topology, about: Mapping[str, Any]) -> Callable[[str, BenchCase], dict[str, float]]:
    """Makes a function that predicts the seconds of a call, by the model and by the simulator with free-running ranks.

    `about` has `model`, the coefficients, and `segment`, the most bytes of a message.
    """
    model, segment = CostModel(**about["model"]), about["segment"]

    @cache
    def predict(algorithm: str, case: BenchCase) -> dict[str, float]:
        schedule = Schedule.build(algorithm, topology, case.collective.name, case.root)
        simulated = simulate(
            schedule, topology, case.size, model=model, free_running=True, segment=segment, details=False
        )
        return {"model": model.cost(schedule, topology, case.size).seconds, "simulated": simulated.seconds}

    return predict
