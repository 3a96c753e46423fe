"""Exact steps and loads of breadth-first schedules on networks, bounds, and schedules that verify them."""

import math
from fractions import Fraction
from functools import lru_cache

from ringroad._native import CostModel, Schedule, Topology, moore_steps
from ringroad.lab.synthesis import BreadthFirst, bfb_cost

VERIFIED = 512
"""The most ranks for which a schedule is made and verified."""


@lru_cache(maxsize=1024)
def evaluate(spec: str, collective: str = "allreduce") -> BreadthFirst:
    """The cost of the breadth-first schedule: T_L in steps, and T_B in M/B."""
    return bfb_cost(spec, collective)


def least(ranks: int, degree: int, collective: str = "allreduce") -> BreadthFirst:
    """The lower bound for all networks: the steps of the Moore bound, and (n-1)/n for each phase."""
    phases = 2 if collective == "allreduce" else 1
    return BreadthFirst(phases * moore(ranks, degree), phases * Fraction(ranks - 1, ranks))


def moore(ranks: int, degree: int, both_ways: bool = False) -> int:
    """The fewest steps in which `degree` links out of each rank can reach all ranks; `both_ways`: if all have a link
    back."""
    steps = moore_steps(ranks, degree, both_ways)
    if steps is None:
        raise ValueError(f"{degree} links out of each rank cannot reach {ranks} ranks")
    return steps


def is_optimal(spec: str, collective: str = "allreduce") -> bool:
    """Whether the schedule loads links as little as possible on any network."""
    return evaluate(spec, collective).bandwidth == least(Topology(spec).ranks, 2, collective).bandwidth


@lru_cache(maxsize=1024)
def verified(spec: str) -> bool | None:
    """Whether the allreduce is correct and costs what `evaluate` says. None if the network is too large to check."""
    network = Topology(spec)
    if network.ranks > VERIFIED:
        return None
    schedule = Schedule.build("bfb", network)
    schedule.verify()
    exact = evaluate(spec)
    cost = CostModel().cost(schedule, network, 0)
    load = float(exact.bandwidth / network.degree)
    return cost.steps == exact.steps and math.isclose(cost.link_load, load, rel_tol=1e-12)


def verified_text(spec: str) -> str:
    """The result of `verified` as text."""
    return {True: "yes", False: "no", None: f"over {VERIFIED}"}[verified(spec)]
