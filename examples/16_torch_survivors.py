"""Train with DistributedDataParallel while a rank is killed and another one joins later.

    python examples/16_torch_survivors.py

Four ranks learn handwritten digits. In the middle of step 20 rank 2 kills itself. The others get an error at once,
agree on the survivors, regroup, and adopt the state of the first survivor, because only some of them may have finished
the step. Then they go on with three ranks. At step 40 a new process joins, and from then on all four have the same bits
again. No rank is special: kill rank 0 with `--victim 0`. The processes find each other by handles. They pass the
handles of new processes through a store in the parent, like that of torchrun's agent.
"""

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the ranks share the cores

import ringroad.torch
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

RANKS = 4
STEPS = 60
DEATH, JOIN = 20, 40  # the steps
BATCH = 120  # over all ranks; divides among 3 and 4


class Job:
    """A process that trains with the present members."""

    def __init__(self, store: dist.Store, number: int, victim: int) -> None:
        self.store, self.number, self.victim = store, number, victim
        dist.init_process_group("ringroad", store=store, rank=0, world_size=1, enable_reconfigure=True,
                                timeout=timedelta(seconds=30))  # fmt: skip
        self.handle: str = dist._get_reconfigure_handle()
        self.members: list[str] = []
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.step = 0

    def regroup(self, uuid: int, members: list[str]) -> None:
        """Makes these processes the group; all adopt the state of its first rank."""
        dist._reconfigure(uuid, members).wait()
        self.members = members
        state = [(self.optimizer.state_dict(), self.step, self.victim)]
        dist.broadcast_object_list(state, src=0)
        optimizer, self.step, self.victim = state[0]
        self.optimizer.load_state_dict(optimizer)
        self.parallel = DistributedDataParallel(self.model)  # sends the first rank's parameters to all

    def first(self) -> None:
        self.store.set(f"handle/{self.number}", self.handle)
        self.regroup(1, [self.store.get(f"handle/{number}").decode() for number in range(RANKS)])

    def join(self) -> None:
        """A new process publishes its handle, and waits for the list of members."""
        self.store.set("new", self.handle)
        uuid, *members = self.store.get("members").decode().split("\n")
        self.regroup(int(uuid), members)

    def take_in(self) -> None:
        """The members wait for the new process, and rank 0 publishes the list of members."""
        members = [*self.members, self.store.get("new").decode()]
        if dist.get_rank() == 0:
            self.store.set("members", "\n".join(["3", *members]))
        self.regroup(3, members)

    def recover(self, error: RuntimeError) -> None:
        """Regroups with the survivors, which all call this."""
        start = time.monotonic()
        left = ringroad.torch.communicator().survivors()
        if len(left) == len(self.members):
            raise error
        self.victim = -1
        self.regroup(2, [self.members[rank] for rank in left])
        if dist.get_rank() == 0:
            print(str(error).rpartition("PeerError: ")[2].partition(". ")[0])
            print(f"went on with {len(left)} ranks after {time.monotonic() - start:.3f} s")

    def learn(self, images: torch.Tensor, labels: torch.Tensor) -> float:
        """One step on this rank's part of the batch."""
        rank, size = dist.get_rank(), dist.get_world_size()
        chance = torch.Generator().manual_seed(self.step)
        part = torch.randperm(len(images), generator=chance)[:BATCH].chunk(size)[rank]
        self.optimizer.zero_grad()
        loss = cross_entropy(self.parallel(images[part]), labels[part])
        if self.step == DEATH and self.number == self.victim:
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()
        self.optimizer.step()
        self.step += 1
        return loss.item()

    def train(self) -> None:
        pixels, digits = load_digits(return_X_y=True)
        images, labels = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
        while self.step < STEPS:
            if self.step == JOIN and len(self.members) < RANKS:
                self.take_in()
            try:
                loss = self.learn(images, labels)
            except RuntimeError as error:  # DistributedDataParallel turns ringroad.PeerError into a plain RuntimeError
                self.recover(error)
            else:
                if dist.get_rank() == 0 and self.step % 10 == 0:
                    print(f"step {self.step}: {dist.get_world_size()} ranks, loss {loss:.3f}")
        bits = b"".join(tensor.numpy().tobytes() for tensor in self.model.state_dict().values())
        digests: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(digests, hashlib.sha256(bits).hexdigest())
        assert len(digests) == RANKS and len(set(digests)) == 1, f"the replicas differ in their bits: {digests}"
        accuracy = (self.model(images).argmax(1) == labels).float().mean().item()
        assert accuracy > 0.9, f"learnt too little: {accuracy}"
        if dist.get_rank() == 0:
            print(f"{RANKS} ranks have the same bits, and know {accuracy:.1%} of the digits")
        dist.destroy_process_group()


def start(number: int, port: int, victim: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, f"--number={number}", f"--port={port}", f"--victim={victim}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--victim", type=int, default=2, help="the rank that is killed [2]")
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    store = dist.TCPStore("127.0.0.1", options.port, is_master=options.number is None, wait_for_workers=False)
    if options.number is not None:
        job = Job(store, options.number, options.victim)
        if options.number < RANKS:
            job.first()
        else:
            job.join()
        job.train()
        return
    processes = [start(number, store.port, options.victim) for number in range(RANKS)]
    assert processes[options.victim].wait() == -signal.SIGKILL
    processes[options.victim] = start(RANKS, store.port, -1)
    sys.exit(max(process.wait() for process in processes))


if __name__ == "__main__":
    main()
