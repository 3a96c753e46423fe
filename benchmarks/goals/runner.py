"""The runner for measurements with goals: on one host the reference may take part, and rounds may wait for a state
of the caches."""

from __future__ import annotations

from functools import partial

from ringroad.measure.bench.launch import BenchError
from ringroad.measure.bench.options import BenchOptions
from ringroad.measure.bench.rows import Predict
from ringroad.measure.bench.runner import Runner

from goals import reference


def runner(
    options: BenchOptions, predict: Predict | None = None, *, cache: str | None = None, plain: bool = False
) -> Runner:
    """Returns a runner; `cache` is its state of the caches, and with `plain` the reference takes part."""
    if options.testbed is not None and (cache is not None or plain):
        raise ValueError("--cache and --reference are for one host, and not for --testbed")
    if not plain:
        return Runner(options, predict, cache=cache)
    if not all(reference.performs(case) for ranks in options.ranks for case in options.cases(ranks)):
        raise BenchError("the reference performs the sum of float32 in allreduce only")
    return Runner(options, predict, cache=cache, invite=partial(reference.Reference, reference.build()))
