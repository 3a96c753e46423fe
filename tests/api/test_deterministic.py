"""One order of reduction for all sizes: an element's sum does not depend on the rest of the vector."""

import ringroad


def test_an_argument_says_so_as_well(refused):
    group = ringroad.Communicator.in_process(5, deterministic="size-invariant")
    with refused(ValueError, "size-invariant"):
        ringroad.Communicator.in_process(2, deterministic="yes")  # type: ignore[arg-type]
    chosen = {group[0].algorithm_for("allreduce", size) for size in (8, 1 << 16, 1 << 28)}
    assert "direct" not in chosen and chosen <= set(ringroad.measure.candidates(group[0], "allreduce"))
    free = ringroad.Communicator.in_process(5)
    assert group[0].algorithm_for("allreduce", 8, dtype="int32") == free[0].algorithm_for("allreduce", 8, dtype="int32")
    with refused(ringroad.ConfigError):
        ringroad.Communicator.in_process(5, algorithm="ring", deterministic="size-invariant")
    for comm in (*group, *free):
        comm.close()
