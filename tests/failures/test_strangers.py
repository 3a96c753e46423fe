"""Connections from outside the job to what a rank listens on: messages over tcp, and the store for regrouping."""

from helpers import PROGRAMS, launch

CODE = PROGRAMS / "attacked.py"


def test_a_job_goes_on_while_strangers_connect(tmp_path):
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "RINGROAD_TRANSPORT": "tcp", "IDLE": "1000"}
    for ended in launch(CODE, 3, env=env):
        found = ended.json()
        assert found["held"] > 6 * 1000, found
        assert found["grown"] < 8 << 20, f"strangers take memory: {found}"
        assert found["on"] == ["0100007F"] * 2, f"it listens beyond loopback: {found}"
        assert found["transport"].endswith("; devices lo)"), found
