"""ringroad's own tcp connections, between processes of one host and between emulated hosts."""

import contextlib
import socket
import threading

import numpy as np
import pytest
import ringroad
from helpers import launch

CHECK = """
import json, ringroad
import numpy as np

with ringroad.init(timeout=30) as comm:
    n, rank = comm.size, comm.rank
    for count in (0, 1, 1000, 1_000_003):
        base = (np.arange(count) % 50).astype(np.float32)
        assert (comm.allreduce(base + rank) == base * n + n * (n - 1) / 2).all(), count
        swapped = comm.alltoall(np.repeat(np.arange(n, dtype=np.float32) + 100 * rank, count))
        assert (swapped == np.repeat(100 * np.arange(n, dtype=np.float32) + rank, count)).all(), count
    print(json.dumps(str(comm.transport)))
"""


@pytest.mark.parametrize(
    ("transport", "secret", "words"),
    [("tcp", "", ["tcp (authenticated; devices lo)"]), ("tcp:3", "open sesame", ["tcp (encrypted; devices lo)"])],
)
def test_a_job_runs_over_it(tmp_path, transport, secret, words):
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "RINGROAD_TRANSPORT": transport, "RINGROAD_SECRET": secret}
    for ended in launch(CHECK, 3, env=env):
        assert ended.json() in words


def test_ranks_of_a_host_share_memory_beside_it(tmp_path):
    env = {"RINGROAD_STORE": f"file://{tmp_path}", "RINGROAD_TRANSPORT": "auto,tcp"}
    host = lambda rank: ([], {"RINGROAD_HOST": f"host{rank // 2}"})  # noqa: E731
    for ended in launch(CHECK, 4, env=env, host=host):
        carrier = ended.json()
        assert carrier.startswith("shared memory (with 1 of 3 ranks)") and "tcp (authenticated" in carrier, carrier


def test_ranks_that_differ_say_who(tmp_path):
    env = {"RINGROAD_STORE": f"file://{tmp_path}"}
    host = lambda rank: ([], {"RINGROAD_TRANSPORT": ["tcp", "auto,ucx", "", "tcp"][rank]})  # noqa: E731
    for ended in launch(CHECK, 4, env=env, host=host):
        assert ended.status != 0
        text = "ConfigError: the ranks have different transports: tcp on ranks 0, 3, ucx on rank 1; set the same"
        assert text in ended.err, ended.err


def test_ranks_that_ask_for_nothing_follow(tmp_path):
    env = {"RINGROAD_STORE": f"file://{tmp_path}"}
    host = lambda rank: ([], {"RINGROAD_HOST": f"host{rank}", "RINGROAD_TRANSPORT": ["", "auto,ucx"][rank]})  # noqa: E731
    assert all(ended.json().startswith("ucx") for ended in launch(CHECK, 2, env=env, host=host))


@contextlib.contextmanager
def heard_on_loopback():
    """All bytes that travel on the loopback interface."""
    try:
        listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    except PermissionError as error:
        pytest.skip(f"hearing what is on the wire: {error}")
    heard, over = [], threading.Event()
    listener.bind(("lo", 0))
    listener.settimeout(0.1)

    def listen():
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                heard.append(listener.recv(1 << 17))

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield heard
    finally:
        over.set()
        thread.join()
        listener.close()


@pytest.mark.parametrize("secret", ["", "open sesame"])
def test_what_is_on_the_wire(secret):
    """With a secret, nothing that ranks send can be read; without one, everything."""
    word = b"a word that ranks send"

    def work(comm, word):
        text = np.frombuffer(word * 5000, np.uint8).copy()
        assert (comm.broadcast(text if comm.rank == 0 else np.zeros_like(text)) == text).all()

    env = {"RINGROAD_TRANSPORT": "tcp", "RINGROAD_SECRET": secret}
    with ringroad.local(2, env=env, timeout=30) as cluster, heard_on_loopback() as heard:
        # Calls are pickled for the workers; so is this word, but for its case.
        cluster.run(lambda comm, word: work(comm, word.lower()), word.upper())
    assert any(word in packet for packet in heard) == (not secret)
