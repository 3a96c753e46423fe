"""Train with torchft over ringroad while a replica is killed and comes back.

    python examples/27_torchft.py       # starts torchft's lighthouse and 3 replicas on this machine

Every replica is one process. In the middle of step 20 one of them kills itself. The others get an error at once, skip
the step and go on with two replicas. A new process takes the place of the dead one: torchft sends it the state of
another replica, and from then on all three train again. At the end all have the same bits.
"""

import argparse
import hashlib
import os
import signal
import subprocess
import sys
from datetime import timedelta
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the replicas share the cores

import ringroad.torch
import torch
import torch.distributed as dist
from ringroad.torch import Options
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torchft import Manager, Optimizer
from torchft.coordination import LighthouseServer
from torchft.process_group import ProcessGroupGloo, ProcessGroupWrapper

REPLICAS = 3
BATCH = 40  # of each replica
DEATH = 20  # the step in which replica VICTIM dies
VICTIM = 1
TOGETHER = 20  # steps of all replicas after that
LIMIT = timedelta(seconds=20)


class ProcessGroupRingroad(ProcessGroupWrapper):
    """A group of ringroad that torchft makes anew whenever replicas come or go."""

    def _create_pg(self, store: dist.Store, rank: int, world_size: int) -> dist.ProcessGroup:
        return ringroad.torch.process_group(store, rank, world_size, Options(timeout=self._timeout))

    def getBackendName(self) -> str:
        return "torchft-ringroad"


class Replica:
    """The model and its training, in one process."""

    def __init__(self, number: int, backend: str, lighthouse: str) -> None:
        self.number, self.together = number, 0
        torch.manual_seed(number)  # torchft sends all replicas the parameters of one
        self.model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        self.sgd = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        group = (ProcessGroupRingroad if backend == "ringroad" else ProcessGroupGloo)(timeout=LIMIT)
        self.manager = Manager(
            pg=group,
            load_state_dict=self.load,
            state_dict=self.state,
            min_replica_size=2,
            use_async_quorum=False,
            timeout=LIMIT,
            quorum_timeout=LIMIT,
            rank=0,
            world_size=1,
            store_addr="127.0.0.1",
            store_port=self.store.port,
            lighthouse_addr=lighthouse,
            hostname="127.0.0.1",
            replica_id=f"replica_{number}",
        )
        self.optimizer = Optimizer(self.manager, self.sgd)

    def state(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "sgd": self.sgd.state_dict(), "together": self.together}

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.sgd.load_state_dict(state["sgd"])
        self.together = state["together"]

    def train(self, dies: bool) -> str:
        """Returns a digest of the parameters."""
        pixels, digits = load_digits(return_X_y=True)
        images, labels = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
        members = 0
        while self.together < TOGETHER:
            self.optimizer.zero_grad()  # the replicas agree on who takes part
            step = self.manager.current_step()
            mine = torch.randperm(len(images), generator=torch.Generator().manual_seed(step * REPLICAS + self.number))
            loss = cross_entropy(self.model(images[mine[:BATCH]]), labels[mine[:BATCH]])
            loss.backward()
            if dies and step == DEATH:
                os.kill(os.getpid(), signal.SIGKILL)
            # torchft's DistributedDataParallel (0.2) ends the process if a call fails in the middle of a step.
            works = [self.manager.allreduce(parameter.grad) for parameter in self.model.parameters()]
            for work in works:
                work.wait()
            if self.number == 0 and members != self.manager.num_participants():
                members = self.manager.num_participants()
                print(f"step {step}: {members} replicas, loss {loss:.3f}", flush=True)
            self.optimizer.step()  # unless an error came
            if self.manager.current_step() > max(step, DEATH) and self.manager.num_participants() == REPLICAS:
                self.together += 1
        accuracy = (self.model(images).argmax(1) == labels).float().mean().item()
        assert accuracy > 0.8, f"learnt too little: {accuracy}"
        bits = b"".join(tensor.numpy().tobytes() for tensor in self.model.state_dict().values())
        return hashlib.sha256(bits).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("ringroad", "gloo"), default="ringroad", help="[ringroad]")
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--dies", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--lighthouse", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.number is not None:
        torch.set_num_threads(1)
        replica = Replica(options.number, options.backend, options.lighthouse)
        print(f"replica {options.number}: {replica.train(options.dies)}", flush=True)
        replica.manager.shutdown(wait=False)
        return

    lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=2, join_timeout_ms=30_000, heartbeat_timeout_ms=2000)
    port = lighthouse.address().rpartition(":")[2]
    command = [sys.executable, __file__, "--backend", options.backend, "--lighthouse", f"http://127.0.0.1:{port}"]

    def start(number: int, *more: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*command, f"--number={number}", *more], stdout=subprocess.PIPE, text=True)

    replicas = [start(number, *(["--dies"] if number == VICTIM else [])) for number in range(REPLICAS)]
    try:
        assert replicas[VICTIM].wait() == -signal.SIGKILL
        replicas[VICTIM] = start(VICTIM)
        said = [replica.communicate()[0] for replica in replicas]
    finally:
        for process in replicas:
            process.kill()
    assert all(replica.returncode == 0 for replica in replicas)
    print(said[0], end="")
    digests = {text.split()[-1] for text in said}
    assert len(digests) == 1, f"the replicas differ in their bits: {digests}"
    print(f"{REPLICAS} replicas over {options.backend} have the same bits")
    lighthouse.shutdown()


if __name__ == "__main__":
    main()
