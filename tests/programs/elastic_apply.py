"""A member of an elastic group of two, whose `apply` fails in the third step on some ranks. It prints what it has seen.

Arguments: the address, and the ranks.
"""

import json
import sys

import numpy as np
import ringroad

address, failing = sys.argv[1], json.loads(sys.argv[2])
state, seen = np.zeros(2), {"error": "", "note": "", "after": ""}


def apply(total):
    state[0] += total[0]
    if group.step == 3 and rank in failing:
        raise ringroad.TimeoutError(f"error of rank {rank}")
    state[1] += total[1]


try:
    with ringroad.elastic(address, {"sums": state}, minimum=2, timeout=5, patience=30) as group:
        rank = group.rank
        while group.step < 6:
            group.update()
            group.run(lambda comm: comm.allreduce(np.ones(2)) / comm.size, apply)
except ringroad.TimeoutError as error:
    seen |= {"error": str(error), "note": getattr(error, "__notes__", [""])[0]}
try:
    group.update()
except RuntimeError as error:
    seen["after"] = str(error)
print(json.dumps(seen | {"rank": rank, "step": group.step, "state": state.tolist()}))
