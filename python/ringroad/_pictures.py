"""Drawing to files, without a display."""

from pathlib import Path
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


def check_format(file: Path) -> None:
    """Raises ValueError if matplotlib is not installed, or does not write such files."""
    formats = pyplot().matplotlib.backend_bases.FigureCanvasBase.filetypes
    if file.suffix and file.suffix[1:].lower() not in formats:
        raise ValueError(f"{file}: pictures end in {', '.join(f'.{name}' for name in sorted(formats))}")
