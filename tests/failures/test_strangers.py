"""Connections from outside the job to what a rank listens on: messages over tcp, and the store for regrouping."""

import pytest
from helpers import PROGRAMS, launch, long

CODE = PROGRAMS / "attacked.py"


@pytest.mark.parametrize(("transport", "idle"), [("ucx", 500), ("tcp", 200), pytest.param("tcp", 1000, marks=long)])
def test_a_job_goes_on_while_strangers_connect(transport, idle, tmp_path):
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "RINGROAD_TRANSPORT": transport, "UCX_TLS": "tcp,self"}
    for ended in launch(CODE, 3, env=env | {"IDLE": str(idle)}):
        found = ended.json()
        assert found["calls"] > 0
        assert found["grown"] < 8 << 20 or transport == "ucx", f"strangers take memory: {found}"
        assert found["on"] == ["0100007F"] * 2, f"it listens beyond loopback: {found}"
        assert found["transport"].endswith("; devices lo)"), found
