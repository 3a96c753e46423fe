"""matplotlib, which only pictures need."""

from importlib.util import find_spec
from typing import Any


def need_matplotlib() -> None:
    """Raises ImportError, with what to install, if matplotlib is missing."""
    if find_spec("matplotlib") is None:
        raise ImportError("pictures need matplotlib; install it with: pip install matplotlib", name="matplotlib")


def pyplot() -> Any:
    """matplotlib's pyplot, set up to draw to files without a display. Raises ValueError if matplotlib is missing."""
    try:
        need_matplotlib()
    except ImportError as error:
        raise ValueError(str(error)) from None
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
