"""Draws a record: `python benchmarks/goals/plot.py RECORD.jsonl PICTURE.png [numpy|torch]` (needs matplotlib)."""

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from ringroad._support.pictures import pyplot
from ringroad.measure.bench.collectives import IN

from goals import summary

Rows = dict[str, dict[int, dict[str, Any]]]
"""Rows by peer and size."""


def read(record: Path, buffers: str) -> dict[str, Rows]:
    """The in-place allreduces by place: the emulated network, or the number of ranks on one host.

    If a size was measured several times, the measurement with the most calls counts.
    """
    places: dict[str, Rows] = defaultdict(lambda: defaultdict(dict))
    testbed = None
    for row in summary.read(record):
        if row["kind"] == "team":
            testbed = row.get("testbed")
        # Records of 2026 name the collective in "kind", and have calls in place on tensors only.
        is_allreduce = "allreduce" in (row["kind"], row.get("collective")) and row.get("place", IN) == IN
        # Fixed algorithms are no peers.
        if is_allreduce and row.get("buffers", buffers) == buffers and ":" not in row["peer"]:
            place = places[testbed or f"{row['ranks']} ranks on one host"]
            before = place[row["peer"]].get(row["size"])
            if before is None or before["calls"] < row["calls"]:
                place[row["peer"]][row["size"]] = row
    return places


def draw(record: Path, picture: Path, buffers: str = "numpy", columns: int = 4) -> None:
    """Draws time over size for every peer, one panel for each emulated network or number of ranks, and at most
    `columns` panels side by side."""
    places = read(record, buffers)
    names = list(dict.fromkeys(peer for peers in places.values() for peer in peers))
    columns = min(columns, len(places))
    lines = -(-len(places) // columns)
    size = (4.5 * columns, 3.8 * lines)
    figure, panels = pyplot().subplots(lines, columns, figsize=size, sharey=True, squeeze=False)
    for panel in panels.flat[len(places) :]:
        panel.set_axis_off()
    for panel, (place, peers) in zip(panels.flat, places.items(), strict=False):
        for peer, rows in peers.items():
            sizes = sorted(rows)
            times = [1e6 * rows[size]["time"] for size in sizes]
            width = 2.5 if peer == "ringroad" else 1.2
            panel.loglog(
                sizes, times, marker="o", markersize=3, label=peer, base=10, color=f"C{names.index(peer)}", lw=width
            )
            simulated = [(size, 1e6 * rows[size]["simulated"]) for size in sizes if rows[size].get("simulated")]
            if simulated:
                panel.loglog(*zip(*simulated, strict=True), "k--", lw=1, label="simulated")
        panel.set_title(f"allreduce, {place}")
        panel.set_xlabel("bytes")
        panel.grid(alpha=0.3)
    for row in panels:
        row[0].set_ylabel("microseconds (less is better)")
    handles = {
        label: line for panel in panels.flat for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=len(handles), frameon=False)
    figure.tight_layout(rect=(0, 0.07 / lines, 1, 1))
    figure.savefig(picture, dpi=120 if lines == 1 else 80)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "numpy")
