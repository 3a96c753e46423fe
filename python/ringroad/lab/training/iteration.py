"""One iteration of data-parallel training: the backward pass and the allreduces of its gradients."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ringroad._native import CostModel, Topology
from ringroad._notebook import frame, table
from ringroad._support.text import about_bytes, bytes_text, check_class, items, parse_bytes, seconds_text, whole
from ringroad.lab.training.model import Layer, Model
from ringroad.lab.training.network import Network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUCKET = "25MiB"
"""The bucket size of torch's DistributedDataParallel (except for its first bucket of 1 MiB)."""

Bucket = int | str
AnyNetwork = Network | Topology | str | int

_COLUMNS = ["network", "iteration", "exposed", "efficiency", "communication", "allreduces", "algorithms"]


class Allreduce(NamedTuple):
    """The gradients that are reduced together. Times are seconds from the beginning of the iteration.

    Attributes:
        layers: The names of their layers.
        bytes: Their length in bytes.
        ready: When the last of them was made.
        start: When the allreduce starts.
        end: When the allreduce ends.
        algorithm: The algorithm that runs.
    """

    layers: tuple[str, ...]
    bytes: int
    ready: float
    start: float
    end: float
    algorithm: str


@dataclass(frozen=True)
class Iteration:
    """The result of `iterate`: the times of one iteration of training. In a notebook it shows itself.

    Attributes:
        model: The model.
        network: The network.
        bucket: How gradients were collected.
        allreduces: The allreduces in their order.
    """

    model: Model
    network: Network
    bucket: Bucket
    allreduces: tuple[Allreduce, ...]

    @property
    def compute(self) -> float:
        """The seconds of the forward and the backward pass."""
        return self.model.forward + self.model.backward

    @property
    def seconds(self) -> float:
        """The time at which both the backward pass and the last allreduce have ended."""
        return max([self.compute, *(allreduce.end for allreduce in self.allreduces)])

    @property
    def communication(self) -> float:
        """The seconds of all allreduces together."""
        return math.fsum(allreduce.end - allreduce.start for allreduce in self.allreduces)

    @property
    def exposed(self) -> float:
        """The seconds after the backward pass in which only the network is busy."""
        return self.seconds - self.compute

    @property
    def efficiency(self) -> float:
        """The fraction of the iteration that computes: n ranks are n times that as fast as one rank."""
        return self.compute / self.seconds if self.seconds else 1.0

    @property
    def algorithms(self) -> list[str]:
        """The algorithms that run, in the order of their first allreduce."""
        return list(dict.fromkeys(allreduce.algorithm for allreduce in self.allreduces))

    def df(self) -> Any:
        """Returns the allreduces as a pandas.DataFrame with a row for each.

        Raises:
            ImportError: pandas is not installed.
        """
        return frame(self.allreduces, Allreduce._fields)

    def plot(self) -> "Figure":
        """Draws what is computed and what is sent when. Needs matplotlib.

        Returns:
            A matplotlib figure.
        """
        return Comparison((self,)).plot()

    def rows(self) -> list[tuple[str, str]]:
        """Returns the results as tuples of a name and a text."""
        return [
            ("iteration", seconds_text(self.seconds)),
            ("forward", seconds_text(self.model.forward)),
            ("backward", seconds_text(self.model.backward)),
            ("communication", f"{seconds_text(self.communication)} in {len(self.allreduces)} allreduces"),
            ("exposed", seconds_text(self.exposed)),
            ("efficiency", f"{self.efficiency:.1%}"),
            ("algorithms", ", ".join(self.algorithms) or "-"),
        ]

    def json(self) -> dict[str, Any]:
        """Returns the results and the timeline as a dictionary for JSON."""
        return {
            "network": self.network.name,
            "ranks": self.network.ranks,
            "seconds": self.seconds,
            "communication": self.communication,
            "exposed": self.exposed,
            "efficiency": self.efficiency,
            "algorithms": self.algorithms,
            "allreduces": [allreduce._asdict() for allreduce in self.allreduces],
        }

    @property
    def title(self) -> str:
        """One line that says what was simulated."""
        return f"{self.model.name} on {self.network.name}, {_bucket_text(self.bucket)}"

    def __repr__(self) -> str:
        return f"<Iteration {self.title}: {seconds_text(self.seconds)}, {seconds_text(self.exposed)} exposed>"

    def _repr_html_(self) -> str:
        return table(self.title, self.rows())


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`: one model on several networks. In a notebook it shows itself.

    Attributes:
        iterations: An `Iteration` for each network.
    """

    iterations: tuple[Iteration, ...]

    @property
    def best(self) -> Iteration:
        """The shortest iteration; of those that take as long, the first."""
        return min(self.iterations, key=lambda iteration: iteration.seconds)

    def df(self) -> Any:
        """Returns the results as a pandas.DataFrame with a row for each network, times in seconds.

        Raises:
            ImportError: pandas is not installed.
        """
        rows = [
            [i.network.name, i.seconds, i.exposed, i.efficiency, i.communication, len(i.allreduces), i.algorithms]
            for i in self.iterations
        ]
        return frame(rows, _COLUMNS)

    def plot(self) -> "Figure":
        """Draws what is computed and what is sent when, for each network. Needs matplotlib.

        Returns:
            A matplotlib figure.
        """
        from ringroad.lab import viz

        return viz.iterations(self.iterations)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Returns header and rows as text, with the families of algorithms."""
        return list(_COLUMNS), [
            [
                i.network.name,
                seconds_text(i.seconds),
                seconds_text(i.exposed),
                f"{i.efficiency:.1%}",
                seconds_text(i.communication),
                str(len(i.allreduces)),
                ", ".join(dict.fromkeys(name.partition(":")[0] for name in i.algorithms)) or "-",
            ]
            for i in self.iterations
        ]

    @property
    def title(self) -> str:
        """One line that says what was compared."""
        model = self.iterations[0].model
        times = f"forward {seconds_text(model.forward)}, backward {seconds_text(model.backward)}"
        bucket = _bucket_text(self.iterations[0].bucket)
        return f"{model.name}, batch {model.batch}: gradients of {about_bytes(model.bytes)}, {bucket}; {times}"

    def __repr__(self) -> str:
        return f"<Comparison {self.title}; best on {self.best.network.name}>"

    def _repr_html_(self) -> str:
        header, rows = self.table()
        return table(self.title, rows, header)


def iterate(
    model: Model | str | Path,
    place: AnyNetwork,
    *,
    bucket: Bucket = BUCKET,
    costs: CostModel | None = None,
    algorithm: str | None = None,
) -> Iteration:
    """Predicts one iteration of training a model on a network.

    The backward pass makes gradients from the last layer to the first. They are collected, in that order, into
    buckets. Each bucket is an allreduce, which starts when the bucket is complete and the allreduce before it has
    ended (wait-free backpropagation: Zhang et al., Poseidon, USENIX ATC 2017). Computing and communicating do not
    slow each other down.

    Args:
        model: A `Model`, the name of a shipped one, or the path of a file.
        place: A `Network`, a `Topology`, a spec, or a number of ranks, which stands for a ring.
        bucket: "layer": each layer for itself. "model": the whole model. A number of bytes, or a text such as
            "25MiB": at least as many bytes, as torch's DistributedDataParallel does. "backlog": what is ready when
            the network becomes idle (Zhao et al., arXiv 2202.03356, section 8.4).
        costs: The cost model, unless `place` is a `Network`. None: `CostModel()`.
        algorithm: Only this algorithm, unless `place` is a `Network`. None: the fastest for each bucket.

    Returns:
        An `Iteration`.

    Raises:
        ValueError: The model or the bucket is invalid.
        OSError: The model's file cannot be read.
        ScheduleError: The algorithm is unknown, or does not run on this network.
        TopologyError: The topology is malformed.

    Example:
        >>> from ringroad.lab import training
        >>> found = training.iterate("resnet50", "torus:4x4")
        >>> found.exposed < found.communication, 0 < found.efficiency <= 1
        (True, True)
    """
    if not isinstance(model, Model):
        model = Model.load(model)
    if costs is not None:
        check_class("costs", costs, CostModel)
    network = place if isinstance(place, Network) else Network.on(place, model=costs, algorithm=algorithm)
    if isinstance(bucket, str) and bucket not in ("layer", "model", "backlog"):
        try:
            bucket = parse_bytes(bucket)
        except ValueError:
            raise ValueError(
                f"bucket {bucket!r} is unknown; expected layer, model, backlog or a size such as 25MiB"
            ) from None
    if not isinstance(bucket, str) and whole("bucket", bucket) < 1:
        raise ValueError(f"a bucket of {bucket} bytes is too small; use layer for a bucket per layer")
    run = _backlog if bucket == "backlog" else _in_buckets
    return Iteration(model, network, bucket, tuple(run(list(model.gradients()), network, bucket)))


def compare(
    model: Model | str | Path,
    places: Iterable[AnyNetwork] | str,
    *,
    bucket: Bucket = BUCKET,
    costs: CostModel | None = None,
    algorithm: str | None = None,
) -> Comparison:
    """Predicts one iteration of training a model on each of several networks.

    Args:
        model: As for `iterate`.
        places: The networks, each as for `iterate`; or the name of one.
        bucket: As for `iterate`.
        costs: As for `iterate`.
        algorithm: As for `iterate`.

    Returns:
        A `Comparison`.

    Raises:
        ValueError: The model or the bucket is invalid, or there are no networks.
        OSError: The model's file cannot be read.
        ScheduleError: The algorithm is unknown, or does not run on a network.
        TopologyError: A topology is malformed.

    Example:
        >>> from ringroad.lab import training
        >>> training.compare("resnet50", ["ring:16", "torus:4x4"]).best.network.name
        'torus:4x4'
    """
    if not isinstance(model, Model):
        model = Model.load(model)
    places = [places] if isinstance(places, str) else items("places", places)
    found = tuple(iterate(model, place, bucket=bucket, costs=costs, algorithm=algorithm) for place in places)
    if not found:
        raise ValueError("nothing to compare: name at least one topology")
    return Comparison(found)


Gradients = list[tuple[Layer, float]]


def _in_buckets(gradients: Gradients, network: Network, bucket: Bucket) -> Iterator[Allreduce]:
    """Fills buckets in the order of the backward pass, and sends each when it is full and the network is idle."""
    limit = {"layer": 1, "model": math.inf}.get(bucket, bucket) if isinstance(bucket, str) else bucket
    free, members, size = 0.0, [], 0
    for number, gradient in enumerate(gradients, 1):
        members.append(gradient)
        size += gradient[0].bytes
        if size >= limit or number == len(gradients):  # type: ignore[operator]
            allreduce = _allreduce(members, network, free)
            free, members, size = allreduce.end, [], 0
            yield allreduce


def _backlog(gradients: Gradients, network: Network, bucket: Bucket) -> Iterator[Allreduce]:
    """Sends a gradient at once if the network is idle; else, when it becomes idle, all gradients that are ready by
    then."""
    free, first = -math.inf, 0
    while first < len(gradients):
        end = first + 1
        while end < len(gradients) and gradients[end][1] <= free:
            end += 1
        allreduce = _allreduce(gradients[first:end], network, free)
        free, first = allreduce.end, end
        yield allreduce


def _allreduce(members: Gradients, network: Network, free: float) -> Allreduce:
    """The allreduce of these gradients on a network that is idle from the time `free` on."""
    size = sum(layer.bytes for layer, _ in members)
    line = network.best(size)
    ready = members[-1][1]
    start = max(ready, free)
    return Allreduce(
        tuple(layer.name for layer, _ in members), size, ready, start, start + line.seconds(size), line.name
    )


def _bucket_text(bucket: Bucket) -> str:
    names = {"layer": "a bucket for each layer", "model": "all in one", "backlog": "all that is ready together"}
    return f"buckets of {bytes_text(bucket)}" if isinstance(bucket, int) else names[bucket]
