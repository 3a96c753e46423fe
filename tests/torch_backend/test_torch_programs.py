"""The benchmark against gloo, on torch tensors."""

import json
import os
import subprocess
import sys


def test_benchmark(tmp_path):
    record = tmp_path / "record.jsonl"
    arguments = ["-b", "8", "-e", "2K", "-f", "16", "--ranks", "2", "--budget", "2", "-d", "bfloat16"]
    arguments += ["--buffers", "numpy,torch", "--peers", "gloo", "--json", str(record)]
    environ = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    command = [sys.executable, "-m", "ringroad", "bench", *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# wrong elements: 0" in done.stdout
    rows = [json.loads(line) for line in record.read_text().splitlines()]
    rows = [row for row in rows if row["kind"] == "measurement" and row["place"] == "in_place"]
    assert {(row["buffers"], row["peer"], row["ranks"], row["size"]) for row in rows} == {
        (buffers, peer, 2, size)
        for buffers, peers in (("numpy", ["ringroad", "gloo"]), ("torch", ["ringroad", "ringroad-torch", "gloo"]))
        for peer in peers
        for size in (8, 128, 2048)
    }
    assert all(row["wrong"] == 0 for row in rows)
