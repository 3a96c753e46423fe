"""Drawing to files, without a display."""

from typing import Any


def pyplot() -> Any:
    """matplotlib's pyplot, set up to draw to files. Raises ValueError if matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise ValueError("pictures need matplotlib; install it with: pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
