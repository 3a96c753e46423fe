"""Processes for the tests of torch.distributed, without importing torch in each.

A zygote imports torch once. For each request it forks ranks, which have torchrun's environment and call a function of
the package `ranks`. (The fork also checks that importing ringroad.torch starts no threads.)
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class Zygote:
    """The test's connection to a zygote."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", __file__],
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.asked = self.answered = 0

    def run(
        self,
        function: str,
        ranks: int,
        *arguments: Any,
        env: dict[str, str] | None = None,
        timeout: float = 60,
        killed: Sequence[int] = (),
    ) -> list[Any]:
        """What `module.function` of the package returned on every rank. Fails with all ranks' tracebacks.

        The ranks in `killed` must end by SIGKILL.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        request = {"function": function, "ranks": ranks, "arguments": arguments, "env": env or {}, "timeout": timeout}
        request["killed"] = list(killed)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        self.asked += 1
        while self.answered < self.asked:  # a test that pytest ended at its timeout has left its answer
            answer = json.loads(self.process.stdout.readline())
            self.answered += 1
        died = f"exit status {-signal.SIGKILL}"
        failures = [
            f"--- rank {rank}: {row['status']}\n{row['log']}"
            for rank, row in enumerate(answer)
            if row["status"] != (died if rank in killed else "")
        ]
        assert not failures, f"{function}{arguments} on {ranks} ranks:\n" + "\n".join(failures)
        return [row["result"] for row in answer]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)


def serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        name, _, function = request["function"].rpartition(".")
        # Imported here, not in the ranks, so that torch is imported once.
        module = importlib.import_module(f"ranks.{name}")
        print(json.dumps(fork(getattr(module, function), request)), flush=True)


def fork(function: Callable[..., Any], request: dict[str, Any]) -> list[dict[str, Any]]:
    reader, writer = os.pipe()
    store = os.fork()
    if store == 0:
        host_store(writer)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        port = pipe.readline()
    environ = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "WORLD_SIZE": str(request["ranks"]),
        # As under torchrun, the store outlives the ranks' process groups.
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        processes = {}
        for rank in range(request["ranks"]):
            pid = os.fork()
            if pid == 0:
                os.environ.update(environ | {"RANK": str(rank), "LOCAL_RANK": str(rank)} | request["env"])
                be_a_rank(function, request, folder, rank)
            processes[pid] = rank
        statuses = await_all(processes, request["timeout"], request["killed"])
        os.kill(store, signal.SIGKILL)
        os.waitpid(store, 0)
        return [
            {
                "status": statuses[rank],
                "log": (folder / f"{rank}.log").read_text(errors="replace"),
                "result": json.loads(result.read_text()) if (result := folder / f"{rank}.json").exists() else None,
            }
            for rank in range(request["ranks"])
        ]


def host_store(pipe: int) -> None:
    """Writes its port to the pipe; never returns. The system chooses the port, since a port found free may be taken
    before use.
    """
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    os.write(pipe, str(store.port).encode())
    os.close(pipe)
    while store:
        time.sleep(1000)


def be_a_rank(function: Callable[..., Any], request: dict[str, Any], folder: Path, rank: int) -> None:
    """Runs the function as a rank and exits; never returns."""
    with (folder / f"{rank}.log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    status = 1
    try:
        result = function(*request["arguments"])
        (folder / f"{rank}.json").write_text(json.dumps(result))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def await_all(processes: dict[int, int], timeout: float, killed: list[int]) -> dict[int, str]:
    """How every rank ended; empty if it succeeded. Once one has failed, the others get 5 more seconds."""
    statuses: dict[int, str] = {}
    deadline = time.monotonic() + timeout
    while len(statuses) < len(processes):
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in processes:
            code = os.waitstatus_to_exitcode(status)
            statuses[processes[pid]] = "" if code == 0 else f"exit status {code}"
            if code and processes[pid] not in killed:
                deadline = min(deadline, time.monotonic() + 5)
        elif time.monotonic() > deadline:
            for pid, rank in processes.items():
                if rank not in statuses:
                    # The fault handler writes the rank's stack to the log.
                    os.kill(pid, signal.SIGABRT)
                    os.waitpid(pid, 0)
                    statuses[rank] = "killed: it took too long"
        else:
            time.sleep(0.005)
    return statuses


if __name__ == "__main__":
    serve()
