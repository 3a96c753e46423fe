"""Axes of bytes and of seconds, with units at their ticks."""

from typing import TYPE_CHECKING

from ringroad._support.text import bytes_text, seconds_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TIMES = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
_SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))


def unit_of_time(longest: float) -> tuple[str, float]:
    """Name and seconds of the unit for an axis that ends at this number of seconds."""
    return next((unit for unit in _TIMES if longest >= unit[1]), _TIMES[-1])


def unit_of_size(largest: float) -> tuple[str, int]:
    """Name and bytes of the unit for an axis that ends at this number of bytes."""
    return next((unit for unit in _SIZES if largest >= unit[1]), _SIZES[-1])


def log_bytes(axes: "Axes") -> None:
    """Makes the x axis one of vectors' lengths in bytes."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=9))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: bytes_text(round(value)))
    axes.tick_params(axis="x", labelrotation=30)
    axes.set_xlabel("length of the vector")


def log_seconds(axes: "Axes") -> None:
    """Makes the y axis one of times in seconds. Call it when everything is drawn."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    few = high / low < 1000
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=20))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: seconds_text(value))
    axes.set_ylabel("time")
