"""Train a convolutional network on handwritten digits with DistributedDataParallel over ringroad, then over gloo.

    python examples/10_ddp_digits.py --plot losses.png          # starts 4 ranks by itself
    torchrun --nproc-per-node 4 examples/10_ddp_digits.py       # or torchrun starts them

Both runs start from the same weights and use the same data in the same order. The script checks that all replicas end
with the same bits and that the losses agree with gloo's, and prints the time of a step with each.
"""

import argparse
import hashlib
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the ranks share the cores

import ringroad.torch
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm


@dataclass
class Run:
    """The results of one training run."""

    losses: list[float]
    step_seconds: list[float]
    accuracy: float
    digest: str
    bucket_bytes: list[int]


def main() -> None:
    options = parse()
    if "RANK" not in os.environ:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(options.ranks)]
        os.execv(sys.executable, [sys.executable, *launcher, __file__, *sys.argv[1:]])

    dist.init_process_group("ringroad")  # no import needed: torch finds it
    torch.set_num_threads(1)
    data = digits()
    runs = {
        "ringroad": train("ringroad", dist.group.WORLD, data, options),
        "gloo": train("gloo", dist.new_group(backend="gloo"), data, options),
    }
    for backend, run in runs.items():
        digests = [""] * dist.get_world_size()
        dist.all_gather_object(digests, run.digest)
        assert len(set(digests)) == 1, f"{backend}: the replicas differ in their bits: {digests}"
    worst = max(abs(a - b) for a, b in zip(runs["ringroad"].losses, runs["gloo"].losses, strict=True))
    assert worst < options.tolerance, f"the losses differ from gloo's by up to {worst}"
    if dist.get_rank() == 0:
        report(runs, worst)
        if options.plot:
            plot(runs, options.plot)
    dist.destroy_process_group()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4, help="processes to start, unless torchrun did [4]")
    parser.add_argument("--epochs", type=int, default=12, help="passes over the training data [12]")
    parser.add_argument("--batch", type=int, default=128, help="digits per step, over all ranks [128]")
    parser.add_argument("--tolerance", type=float, default=0.02, help="largest difference of losses from gloo's [0.02]")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="draw the losses (needs matplotlib)")
    return parser.parse_args()


def digits() -> list[torch.Tensor]:
    """Images and labels to train with, then to test with: 1,797 digits of 8 x 8 pixels."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype("float32").reshape(-1, 1, 8, 8)
    parts = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    return [torch.from_numpy(parts[index]) for index in (0, 2, 1, 3)]


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )


def train(name: str, group: dist.ProcessGroup, data: list[torch.Tensor], options: argparse.Namespace) -> Run:
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    images, labels, test_images, test_labels = data
    torch.manual_seed(0)
    model = network()
    replica = DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.5)
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.1, momentum=0.9)
    shuffle = torch.Generator().manual_seed(1)
    losses, seconds = [], []
    steps = len(images) // options.batch
    with tqdm(total=options.epochs * steps, desc=name, disable=rank != 0 or not sys.stderr.isatty()) as progress:
        for _ in range(options.epochs):
            order = torch.randperm(len(images), generator=shuffle)
            for batch in order.split(options.batch)[:steps]:
                mine = batch[rank::ranks]
                start = time.perf_counter()
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(replica(images[mine]), labels[mine])
                loss.backward()
                optimizer.step()
                seconds.append(time.perf_counter() - start)
                mean = loss.detach() / ranks
                dist.all_reduce(mean, group=group)
                losses.append(mean.item())
                progress.update()
    with torch.no_grad():
        accuracy = (model(test_images).argmax(1) == test_labels).float().mean().item()
    bits = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    return Run(losses, seconds, accuracy, hashlib.sha256(bits).hexdigest(), bucket_bytes(replica))


def bucket_bytes(replica: DistributedDataParallel) -> list[int]:
    """The sizes in bytes of the buckets in which the gradients are reduced."""
    sizes = replica._get_ddp_logging_data().get("rebuilt_bucket_sizes", "")
    return [int(size) for size in sizes.split(",") if size.strip()]


def report(runs: dict[str, Run], worst: float) -> None:
    communicator, ours, theirs = ringroad.torch.communicator(), runs["ringroad"], runs["gloo"]
    print(f"\n{communicator.size} ranks over {communicator.transport}")
    print("allreduce by size:", ", ".join(f"from {size} B {name}" for size, name in communicator.switch_points()))
    for size in ours.bucket_bytes:
        print(f"  a gradient bucket of {size:>7} B: {communicator.algorithm_for('allreduce', size)}")

    print("\nstep   loss over ringroad  over gloo")
    for step in sorted({*range(0, len(ours.losses), max(1, len(ours.losses) // 12)), len(ours.losses) - 1}):
        print(f"{step:4d}   {ours.losses[step]:18.5f}  {theirs.losses[step]:9.5f}")
    print(f"losses differ by at most {worst:.2g}; all replicas hold the same bits ({ours.digest[:12]})")

    print("\n            test accuracy   median step")
    medians = {name: statistics.median(run.step_seconds) for name, run in runs.items()}
    for name, run in runs.items():
        print(f"{name:<10}  {run.accuracy:13.1%}   {medians[name] * 1e3:8.2f} ms")
    print(f"a step takes {medians['gloo'] / medians['ringroad']:.2f} times as long over gloo as over ringroad")


def plot(runs: dict[str, Run], path: Path) -> None:
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for (name, run), style in zip(runs.items(), ("-", "--"), strict=True):
        milliseconds = statistics.median(run.step_seconds) * 1e3
        axes.plot(run.losses, style, label=f"{name}: {milliseconds:.1f} ms a step, accuracy {run.accuracy:.1%}")
    axes.set(xlabel="step", ylabel="training loss", yscale="log", title="Digits, DistributedDataParallel")
    axes.legend()
    figure.savefig(path, dpi=150)
    print(f"losses drawn to {path}")


if __name__ == "__main__":
    main()
