"""One order of reduction for all sizes: an element's sum does not depend on the rest of the vector."""

import numpy as np
import pytest
import ringroad
from helpers import FULL
from ringroad._oracle import dtype_of

INVARIANT = {"RINGROAD_DETERMINISTIC": "size-invariant"}
LENGTHS = (1, 2, 7, 1000, 65537, 300_001, 1_300_003)
"""The longest vectors consist of several parts and of many segments."""


def differing(comm, dtype, collective, **options):
    """The number of elements whose bits differ between vectors of different lengths."""
    size, rank = comm.size, comm.rank
    random = np.random.default_rng(rank)
    most = LENGTHS[-1] // size * size
    values = random.standard_normal(most) * 2.0 ** random.integers(-12, 12, most)
    values = values.astype(dtype_of(dtype))
    bits = np.dtype(f"u{values.itemsize}")

    def sums(start, length):
        """The first element, and the bits of the sums."""
        part = values[start : start + length].copy()
        if collective == "allreduce":
            return start, comm.allreduce(part, **options).view(bits)
        if collective == "reduce":
            found = comm.reduce(part, root=size - 1, **options)
            return start, None if found is None else found.view(bits)
        found = comm.reduce_scatter(part, **options).view(bits)
        return start + rank * len(found), found

    # Each rank compares its own sums; in a reduce-scatter they differ between ranks.
    table, known = np.zeros(most, bits), np.zeros(most, bool)
    wrong = 0
    for length in LENGTHS[::-1]:
        length = length // size * size or size
        for start in {0, 1, (most - length) // 2, most - length}:
            if start + length > most:
                continue
            first, found = sums(start, length)
            if found is None:
                continue
            here = slice(first, first + len(found))
            wrong += int(np.count_nonzero(known[here] & (table[here] != found)))
            table[here], known[here] = found, True
    assert known.any() or collective == "reduce"
    return wrong


@pytest.mark.parametrize("ranks", [2, 3, 4] if FULL else [3])
@pytest.mark.parametrize("collective", ["allreduce", "reduce_scatter", "reduce"])
def test_sums_do_not_depend_on_the_length(ranks, collective):
    with ringroad.local(ranks, env=INVARIANT) as cluster:
        for dtype in ("float32", "bfloat16"):
            assert cluster.run(differing, dtype, collective) == [0] * ranks


def test_otherwise_they_do():
    """Without the setting, sums do depend on the length, so the test above can fail."""
    with ringroad.local(4) as cluster:
        assert min(cluster.run(differing, "float32", "allreduce", algorithm="ring")) > 0


def test_an_argument_says_so_as_well():
    group = ringroad.Communicator.in_process(5, deterministic="size-invariant")
    with pytest.raises(ValueError, match='write "size-invariant" or None'):
        ringroad.Communicator.in_process(2, deterministic="yes")  # type: ignore[arg-type]
    chosen = {group[0].algorithm_for("allreduce", size) for size in (8, 1 << 16, 1 << 28)}
    assert "direct" not in chosen and chosen <= set(ringroad.measure.contestants(group[0], "allreduce"))
    free = ringroad.Communicator.in_process(5)
    assert group[0].algorithm_for("allreduce", 8, dtype="int32") == free[0].algorithm_for("allreduce", 8, dtype="int32")
    with pytest.raises(ringroad.ConfigError, match="adds up in one order"):
        ringroad.Communicator.in_process(5, algorithm="ring", deterministic="size-invariant")
    for comm in (*group, *free):
        comm.close()
