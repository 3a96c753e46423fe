"""Draws a record of the benchmark: `python -m ringroad.bench.plot RECORD.jsonl PICTURE.png` (needs matplotlib)."""

import json
import sys
from collections import defaultdict
from pathlib import Path

from ringroad.bench.collectives import IN


def draw(record: Path, picture: Path) -> None:
    """Draws time over size for every peer, one panel for each number of ranks."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lines: dict[int, dict[str, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in map(json.loads, record.read_text().splitlines()):
        # Records of 2026 name the collective in "kind", and have calls in place only.
        if "allreduce" in (row["kind"], row.get("collective")) and row.get("place", IN) == IN:
            lines[row["ranks"]][f"{row['peer']}, {row.get('buffers', 'torch')}"].append((row["size"], row["time"]))
    figure, panels = pyplot.subplots(1, len(lines), figsize=(4.5 * len(lines), 3.4), sharey=True, squeeze=False)
    for panel, (ranks, peers) in zip(panels[0], sorted(lines.items()), strict=True):
        for peer, points in peers.items():
            sizes, times = zip(*sorted(points), strict=True)
            panel.loglog(sizes, [1e6 * time for time in times], marker="o", markersize=3, label=peer, base=10)
        panel.set_title(f"allreduce, {ranks} ranks on one host")
        panel.set_xlabel("bytes")
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("microseconds (less is better)")
    panels[0][0].legend()
    figure.tight_layout()
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
