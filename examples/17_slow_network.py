"""Train to the same accuracy on an emulated network of 50 Mbit/s: exact gradients, and formats of fewer bytes.

    python examples/17_slow_network.py --plot losses.png     # needs root or a user namespace

Every run starts from the same weights and uses the same data in the same order, on four hosts in a ring. The formats
use error feedback: what rounding takes from a step's gradients is added to the next ones. gloo runs beside them, with
exact gradients and with torch's own hook for bfloat16. Only the steps are timed, not the tests of accuracy.
"""

import argparse
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the ranks share the cores

import ringroad.torch
import torch
import torch.distributed as dist
from ringroad.torch import Compression, compressed
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

Data = list[torch.Tensor]


@dataclass
class Run:
    """Loss and accuracy on the digits that are not trained on, after so many seconds of training."""

    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)

    def seconds_to(self, accuracy: float) -> float | None:
        """When the accuracy was reached for good: from then on it was never below."""
        below = [index for index, found in enumerate(self.accuracies) if found < accuracy]
        first = below[-1] + 1 if below else 0
        return self.seconds[first] if first < len(self.seconds) else None


def main() -> None:
    options = parse()
    if "RANK" not in os.environ:
        testbed = ["-m", "ringroad", "testbed", "ring:4", "--rate", options.rate, "--"]
        os.execv(sys.executable, [sys.executable, *testbed, sys.executable, __file__, *sys.argv[1:]])
    dist.init_process_group("ringroad")
    torch.set_num_threads(1)
    data, gloo = digits(), dist.new_group(backend="gloo")
    runs = {"exact": train(data, options)}
    for wire in ("bf16", "int8", "int4"):
        runs[wire] = train(data, options, hook=(Compression(wire), compressed))
    runs["gloo"] = train(data, options, gloo)
    runs["gloo, bf16 hook"] = train(data, options, gloo, hook=(gloo, bf16_compress_hook))
    if dist.get_rank() == 0:
        report(runs, options)
    dist.destroy_process_group()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="50Mbit", help="of each cable in each direction [50Mbit]")
    parser.add_argument("--steps", type=int, default=80, help="steps of each run [80]")
    parser.add_argument("--accuracy", type=float, default=0.95, help="the accuracy to reach [0.95]")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the losses (needs matplotlib)")
    return parser.parse_args()


def digits() -> Data:
    """Images and labels to train with, then to test with: 1,797 digits of 8 x 8 pixels."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype("float32")
    parts = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    return [torch.from_numpy(parts[index]) for index in (0, 2, 1, 3)]


def train(data: Data, options: argparse.Namespace, group: dist.ProcessGroup | None = None, hook=None) -> Run:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    images, labels, test_images, test_labels = data
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    replica = DistributedDataParallel(model, process_group=group)
    if hook is not None:
        replica.register_comm_hook(*hook)
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.2, momentum=0.9)
    shuffle = torch.Generator().manual_seed(1)
    run, seconds = Run(), 0.0
    for _ in range(options.steps):
        mine = torch.randint(len(images), (128,), generator=shuffle)[rank::ranks]
        start = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(replica(images[mine]), labels[mine]).backward()
        optimizer.step()
        seconds += time.perf_counter() - start
        with torch.no_grad():
            found = model(test_images)
        run.seconds.append(seconds)
        run.losses.append(nn.functional.cross_entropy(found, test_labels).item())
        run.accuracies.append((found.argmax(1) == test_labels).float().mean().item())
    assert ringroad.torch.check_replicas(model).same
    return run


def report(runs: dict[str, Run], options: argparse.Namespace) -> None:
    parameters = 64 * 512 + 512 * 512 + 512 * 10 + 512 + 512 + 10
    print(f"{dist.get_world_size()} hosts in a ring of {options.rate}/s, {4 * parameters / 1e6:.1f} MB of gradients")
    print(f"\n{'':<16} {'a step':>9} {'to ' + format(options.accuracy, '.0%'):>9} {'accuracy':>9} {'loss':>7}")
    for name, run in runs.items():
        reached = run.seconds_to(options.accuracy)
        step = f"{1e3 * run.seconds[-1] / len(run.seconds):.0f} ms"
        time_to = "never" if reached is None else f"{reached:.2f} s"
        print(f"{name:<16} {step:>9} {time_to:>9} {run.accuracies[-1]:>9.1%} {run.losses[-1]:>7.3f}")
    if options.plot:
        plot(runs, options)


def plot(runs: dict[str, Run], options: argparse.Namespace) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for name, run in runs.items():
        style = "--" if name.startswith("gloo") else "-"
        panels[0].plot(range(1, len(run.losses) + 1), run.losses, style)
        panels[1].plot(run.seconds, run.losses, style, label=name)
    panels[0].set(xlabel="step", ylabel="loss on digits that are not trained on", yscale="log")
    panels[1].set(xlabel="seconds of training")
    panels[1].legend()
    figure.suptitle(f"DistributedDataParallel on a ring of four hosts, {options.rate}/s")
    figure.savefig(options.plot, dpi=120)
    print(f"losses drawn to {options.plot}")


if __name__ == "__main__":
    main()
