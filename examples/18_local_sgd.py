"""Local SGD on an emulated network of 50 Mbit/s: ranks train alone, and average what they have learned now and then.

    python examples/18_local_sgd.py          # needs root or a user namespace

This is DiLoCo (Douillard et al., 2023). Every rank trains its replica on its own data for some steps. Then the ranks
average their pseudo-gradients, the differences between the common weights and their own, and an outer optimizer (SGD
with Nesterov's momentum) moves the common weights. Beside it: DistributedDataParallel, which averages in every step.
"""

import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the ranks share the cores

import ringroad.torch
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector, vector_to_parameters

RATE = "50Mbit"
STEPS = 120
EVERY = 20  # steps between two averages

images, labels = load_digits(return_X_y=True)
parts = train_test_split((images / 16.0).astype("float32"), labels, test_size=0.2, random_state=0, stratify=labels)
IMAGES, TEST_IMAGES, LABELS, TEST_LABELS = map(torch.from_numpy, parts)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def gradients(model: nn.Module, batches: torch.Generator) -> None:
    """Those of this rank's next batch, from its own quarter of the digits."""
    own = torch.arange(dist.get_rank(), len(IMAGES), dist.get_world_size())
    batch = own[torch.randint(len(own), (32,), generator=batches)]
    model.zero_grad()
    nn.functional.cross_entropy(model(IMAGES[batch]), LABELS[batch]).backward()


def data_parallel() -> nn.Module:
    """The average of all gradients in every step, exactly."""
    model, batches = DistributedDataParallel(network()), torch.Generator().manual_seed(dist.get_rank())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(STEPS):
        gradients(model, batches)
        optimizer.step()
    return model.module


def local_sgd(sums: dist.ProcessGroup) -> nn.Module:
    """The average of pseudo-gradients every `EVERY` steps, in the format of the group `sums`."""
    model, batches = network(), torch.Generator().manual_seed(dist.get_rank())
    inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    common = nn.Parameter(parameters_to_vector(model.parameters()).detach().clone())
    outer = torch.optim.SGD([common], lr=0.7, momentum=0.9, nesterov=True)
    for step in range(1, STEPS + 1):
        gradients(model, batches)
        inner.step()
        if step % EVERY == 0:
            common.grad = common.detach() - parameters_to_vector(model.parameters()).detach()
            dist.all_reduce(common.grad, dist.ReduceOp.AVG, group=sums)
            outer.step()
            vector_to_parameters(common.detach(), model.parameters())
    return model


def report(name: str, train) -> float:
    """Trains, prints how long that took and how good the result is, and returns the accuracy."""
    dist.barrier()
    start = time.perf_counter()
    model = train()
    seconds = time.perf_counter() - start
    assert ringroad.torch.check_replicas(model).same
    with torch.no_grad():
        accuracy = (model(TEST_IMAGES).argmax(1) == TEST_LABELS).float().mean().item()
    if dist.get_rank() == 0:
        print(f"{name:<32} {seconds:6.1f} s for {STEPS} steps, accuracy {accuracy:.1%}", flush=True)
    return accuracy


def main() -> None:
    if "RANK" not in os.environ:
        testbed = ["-m", "ringroad", "testbed", "ring:4", "--rate", RATE, "--"]
        os.execv(sys.executable, [sys.executable, *testbed, sys.executable, __file__, *sys.argv[1:]])
    dist.init_process_group("ringroad")
    torch.set_num_threads(1)
    sums = {wire: dist.new_group(pg_options=ringroad.torch.Options(wire=wire)) for wire in (None, "int8", "int4")}
    accuracies = [report("every step, exact", data_parallel)]
    for wire, group in sums.items():
        accuracies.append(report(f"every {EVERY} steps, {wire or 'exact'}", lambda group=group: local_sgd(group)))
    assert min(accuracies) > 0.9
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
