"""Connections from outside the job to what a rank listens on: messages over tcp, and the store for regrouping."""

from helpers import PROGRAMS, launch

CODE = PROGRAMS / "attacked.py"


def test_a_job_goes_on_while_strangers_connect(tmp_path):
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "RINGROAD_TRANSPORT": "ucx", "UCX_TLS": "tcp,self"}
    for ended in launch(CODE, 3, env=env | {"IDLE": "500"}):
        found = ended.json()
        assert found["calls"] > 0
        assert found["on"] == ["0100007F"] * 2, f"it listens beyond loopback: {found}"
        assert found["transport"].endswith("; devices lo)"), found
