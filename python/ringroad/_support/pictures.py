"""matplotlib, which only pictures need."""

from importlib.util import find_spec
from pathlib import Path
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


def check_format(file: Path) -> None:
    """Raises ValueError if matplotlib is not installed, or does not write such files."""
    formats = pyplot().matplotlib.backend_bases.FigureCanvasBase.filetypes
    if file.suffix and file.suffix[1:].lower() not in formats:
        raise ValueError(f"{file}: pictures end in {', '.join(f'.{name}' for name in sorted(formats))}")
