"""From measured times to a profile, by which communicators choose."""

from collections.abc import Sequence

from ringroad._native import Communicator, Profile
from ringroad._support.text import check_class


def candidates(communicator: Communicator, collective: str = "allreduce") -> list[str]:
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
        >>> "ring" in ringroad.measure.candidates(a, "allgather")
        True
    """
    check_class("communicator", communicator, Communicator)
    return communicator._candidates(collective)


def calibrate(communicator: Communicator, measurements: Sequence[tuple[str, str, int, float]]) -> Profile:
    """Makes a profile of the ranks' network and machines from measured times, to which it fits the cost model.

    `ringroad tune` measures and does the same. No rank needs to wait for others.

    Args:
        communicator: Two ranks or more.
        measurements: Tuples of a collective, an algorithm, the vector's bytes, and seconds.

    Returns:
        The profile.

    Raises:
        ValueError: A collective is unknown.
        ScheduleError: An algorithm is unknown, or does not run on this network.
        ConfigError: There are no measurements, a time is not above 0, or there is one rank only.

    Example:
        >>> a, b = ringroad.Communicator.in_process(2)
        >>> ringroad.measure.calibrate(a, [("allreduce", "ring", 8, 1e-6)]).measurements
        [('allreduce', 'ring', 8, 1e-06)]
    """
    check_class("communicator", communicator, Communicator)
    return communicator._calibrate(measurements)
