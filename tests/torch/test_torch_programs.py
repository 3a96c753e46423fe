"""The benchmark runs, verifies what it measures, and writes a record."""

import json
import os
import subprocess
import sys


def run(*command: str) -> str:
    environ = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run([sys.executable, *command], env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_benchmark(tmp_path):
    record = tmp_path / "record.jsonl"
    sizes = ["-b", "8", "-e", "4K", "-f", "16"]
    out = run("-m", "ringroad.bench", *sizes, "--ranks", "2,3", "--budget", "2", "--json", str(record))
    assert "of 8 sizes" in out and "# wrong elements: 0" in out and "NumPy API" in out
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    assert rows[0]["kind"] == "machine" and rows[0]["versions"]["torch"]
    measured = [row for row in rows if row["kind"] == "allreduce"]
    assert {(row["peer"], row["ranks"], row["size"]) for row in measured} == {
        (peer, ranks, size) for peer in ("ringroad", "gloo") for ranks in (2, 3) for size in (8, 128, 2048, 4096)
    }
    assert all(row["wrong"] == 0 and 0 < row["min"] <= row["p50"] <= row["p99"] for row in measured)
