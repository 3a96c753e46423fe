"""From measured times to a profile, by which communicators choose."""

from collections.abc import Sequence

from ringroad._native import Communicator, Profile


def contestants(communicator: Communicator, collective: str = "allreduce") -> list[str]:
    """The algorithms that are worth measuring: those among which the choice for floats is made.

    Of algorithms that cost the same, only the first in the catalogue is in the list.

    Args:
        communicator: The ranks.
        collective: For example "allreduce".

    Returns:
        The algorithms' names.

    Raises:
        ValueError: The collective is unknown.
        ScheduleError: No algorithm performs it on this network.

    Example:
        >>> a, b = ringroad.Communicator.in_process(2)
        >>> "ring" in ringroad.measure.contestants(a, "allgather")
        True
    """
    return communicator._contestants(collective)


def calibrate(communicator: Communicator, measurements: Sequence[tuple[str, str, int, float]]) -> Profile:
    """Makes a profile of the ranks' network and machines from measured times, to which it fits the cost model.

    Every rank calls it. `ringroad tune` measures and calls it.

    Args:
        communicator: The ranks.
        measurements: Tuples of a collective, an algorithm, the vector's bytes, and seconds.

    Returns:
        The profile.

    Raises:
        ValueError: A collective is unknown.
        ScheduleError: An algorithm is unknown, or does not run on this network.
        ConfigError: There are no measurements, or a time is not above 0.

    Example:
        >>> (comm,) = ringroad.Communicator.in_process(1)
        >>> profile = ringroad.measure.calibrate(comm, [("allreduce", "ring", 8, 1e-6)])
        >>> [size for _, _, size, _ in profile.measurements]
        [8]
    """
    return communicator._calibrate(measurements)
