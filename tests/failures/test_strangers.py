"""Connections from outside the job to what a rank listens on: messages over tcp, and the store for regrouping."""

import os

import pytest
from helpers import PROGRAMS, free_port, launch

CODE = PROGRAMS / "attacked.py"


def test_a_job_goes_on_while_strangers_connect(tmp_path):
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "RINGROAD_TRANSPORT": "tcp", "IDLE": "1000"}
    for ended in launch(CODE, 3, env=env):
        found = ended.json()
        assert found["held"] > 6 * 1000, found
        assert found["grown"] < 8 << 20, f"strangers take memory: {found}"
        assert found["on"] == ["0100007F"] * 2, f"it listens beyond loopback: {found}"
        assert found["transport"].endswith("; devices lo)"), found


def test_other_users_of_the_machine_are_refused():
    """Without a secret, they neither join a job nor learn anything of it, and are told why. Root may ask."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    store = f"tcp://127.0.0.1:{free_port()}"
    ended = launch(PROGRAMS / "other_user.py", 2, env={"RINGROAD_STORE": store}, timeout=300)
    assert [one.status for one in ended] == [0, 0], ended
    said = ended[0].json()
    why = (
        "belongs to user 0 of this machine, and this process runs as user 61000: "
        "set RINGROAD_SECRET to the same text for both"
    )
    for what in ("status", "join"):
        out, err, status = said[what]
        assert (out, status != 0) == ("", True) and why in " ".join(err.split()), said[what]
    out, err, status = said["here"]
    assert (out, status) == ("", 2) and "no job of this user runs on this host" in " ".join(err.split()), err
    out, err, status = said["root"]
    assert status == 0 and "other_user.py" in out, (out, err)
