"""Random programs in which a rank makes another call or leaves: right results, then the same kind of error for all."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import ringroad
from ringroad._oracle import COLLECTIVES, DTYPES, ops

from programs.random_collectives import Call, OfRingroad, Started, drawn

SECONDS = 10.0
"""The time limit of calls."""
MISTAKES = ("another call", "count", "root", "dtype", "op", "algorithm", "none", "twice")
LEAVES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "close": (lambda comm: comm.close(), "PeerError"),
    "abort": (lambda comm: comm.abort("enough"), "AbortedError"),
    "late": (lambda comm: time.sleep(3 * SECONDS), "TimeoutError"),
    "exit": (lambda comm: os._exit(1), "PeerError"),
}
"""How a rank leaves, and what the others get."""


def collective(random: Random, ranks: int) -> Call:
    return next(call for call in iter(lambda: drawn(random, ranks), None) if call.case.name in COLLECTIVES)


def instead(what: str, call: Call, random: Random, ranks: int) -> list[Call]:
    """What a rank calls by mistake."""
    case = call.case
    others = {
        "another call": collective(random, ranks).case,
        "count": replace(case, count=case.count + 1, blocks="even"),
        "root": replace(case, root=(case.root + 1) % ranks),
        "dtype": replace(
            case, dtype=random.choice([one for one in DTYPES if case.op in ops(case.name, one)] or [case.dtype])
        ),
        "op": replace(case, op=random.choice(ops(case.name, case.dtype) or [case.op])),
    }
    return {"none": [], "twice": [call, call]}.get(what, [Call(others.get(what, case), call.width, random.random())])


def run_wrong(comm: Any, seed: str, kinds: tuple[str, ...]) -> tuple[str, str, list[str]]:
    """Runs a program. Returns what the rank does wrong, the first error of a call, and what is wrong with that."""
    random, local = Random(seed), Random(f"{seed} {comm.rank}")
    library, what, victim, at = (
        OfRingroad(comm),
        random.choice(kinds),
        random.randrange(comm.size),
        random.randrange(1, 5),
    )
    calls: list[Any] = [collective(random, comm.size) for _ in range(6)]
    mistake = instead(what, calls[at], random, comm.size)
    if comm.rank == victim:
        calls[at : at + 1] = [LEAVES[what][0], calls[at]] if what in LEAVES else mistake
    errors: list[str] = []
    wrong: list[str] = []

    def attempt(action: Callable[[], Any]) -> Any:
        try:
            return action()
        except ringroad.RingroadError as error:
            errors.append(f"{type(error).__name__}: {error}")
        except (TypeError, ValueError):
            # The rank that is wrong may be refused.
            if comm.rank != victim or what not in MISTAKES:
                raise

    together, began = random.choice([1, 3]), time.monotonic()
    started: list[Started] = []
    for number, call in enumerate(calls):
        one = attempt(lambda call=call: Started(library, call, local) if isinstance(call, Call) else call(comm))
        started += [one] if one else []
        if number % together == 0 or number == len(calls) - 1:
            for each in local.sample(started, len(started)):
                wrong.append(attempt(each.finish))
            started.clear()
    for _ in range(5):  # a rank that only sends learns late
        attempt(comm.barrier)
    if time.monotonic() - began > 10 * SECONDS:
        wrong.append("took too long")
    return what, errors[0] if errors else "", [f"program {seed!r}, {what}: {text}" for text in wrong if text]
