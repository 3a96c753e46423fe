"""Draws a record: `python -m ringroad.bench.plot RECORD.jsonl PICTURE.png [numpy|torch]` (needs matplotlib)."""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from ringroad.bench.collectives import IN

Rows = dict[str, dict[int, dict[str, Any]]]
"""Rows by peer and size."""


def read(record: Path, buffers: str) -> dict[int, Rows]:
    """The in-place allreduces by number of ranks. Of several measurements of a size, the one with the most calls."""
    lines: dict[int, Rows] = defaultdict(lambda: defaultdict(dict))
    for row in map(json.loads, record.read_text().splitlines()):
        # Records of 2026 name the collective in "kind", and have calls in place on tensors only.
        is_allreduce = "allreduce" in (row["kind"], row.get("collective")) and row.get("place", IN) == IN
        if is_allreduce and row.get("buffers", buffers) == buffers:
            before = lines[row["ranks"]][row["peer"]].get(row["size"])
            if before is None or before["calls"] < row["calls"]:
                lines[row["ranks"]][row["peer"]][row["size"]] = row
    return lines


def draw(record: Path, picture: Path, buffers: str = "numpy") -> None:
    """Draws time over size for every peer, one panel for each number of ranks."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines = read(record, buffers)
    names = list(dict.fromkeys(peer for peers in lines.values() for peer in peers))
    figure, panels = pyplot.subplots(1, len(lines), figsize=(4.5 * len(lines), 3.8), sharey=True, squeeze=False)
    for panel, (ranks, peers) in zip(panels[0], sorted(lines.items()), strict=True):
        for peer, rows in peers.items():
            sizes = sorted(rows)
            times = [1e6 * rows[size]["time"] for size in sizes]
            width = 2.5 if peer == "ringroad" else 1.2
            panel.loglog(
                sizes, times, marker="o", markersize=3, label=peer, base=10, color=f"C{names.index(peer)}", lw=width
            )
        panel.set_title(f"allreduce, {ranks} ranks on one host")
        panel.set_xlabel("bytes")
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("microseconds (less is better)")
    handles = {
        label: line for panel in panels[0] for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=len(handles), frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
