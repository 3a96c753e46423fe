"""The lines of a panel: the time of every series for every size."""

from collections.abc import Mapping
from functools import lru_cache
from itertools import count, takewhile
from typing import Any

from ringroad._costs import Cost
from ringroad._native import Algorithm, CostModel, Schedule, Topology
from ringroad._support.text import parse_bytes
from ringroad.lab.reproduce.definition import Definition


@lru_cache(maxsize=512)
def cost_of_form(name: str, spec: str, **model: float) -> Cost | None:
    """The cost of a form on this network; None if the algorithm does not run on it.

    A form is an algorithm; `swing-latency/0` is the algorithm on the ports of its slice 0 alone.
    """
    algorithm, _, part = name.partition("/")
    bandwidth, latency, processing = model["bandwidth"], model["link_latency"], model["processing"]
    network = Topology(spec, bandwidth=bandwidth, latency=latency, processing=processing)
    if not Algorithm(algorithm).supports(network):
        return None
    schedule = Schedule.build(algorithm, network)
    if part:
        schedule = schedule.on_slice(int(part))
    # The papers' models have no cost of messages that meet at a port.
    costs = CostModel(step_latency=model["step_latency"], incast_latency=0.0, reduce_cost=model["reduce_cost"])
    return costs.cost(schedule, network, 0)


def seconds(cost: Cost, size: int) -> float:
    """The time for a vector of this many bytes."""
    return cost.fixed + cost.per_byte * size


class Panel:
    """What a figure shows of one network: how long every series takes for every size.

    A series is at every size the fastest of its forms. The subject is the series that the paper is about; it is not
    compared with series that are `aside`.

    Args:
        definition: The paper's evaluation.
        figure: The figure, as in the definition's data.
        network: A panel of it: the network's spec; or a mapping with the `topology`, and perhaps the `bandwidth` of a
            link in bytes per second, the panel's `label`, and the series that it is `without`.
    """

    def __init__(self, definition: Definition, figure: Mapping[str, Any], network: str | Mapping[str, Any]) -> None:
        own: Mapping[str, Any] = {"topology": network} if isinstance(network, str) else network
        without = own.get("without", figure.get("without", []))
        sizes, every = figure.get("sizes", definition.data["sizes"]), definition.data["series"]
        smallest, largest = parse_bytes(sizes["smallest"]), parse_bytes(sizes["largest"])
        powers = (smallest * sizes["factor"] ** power for power in count())
        self.sizes: list[int] = list(takewhile(lambda size: size <= largest, powers))
        self.topology = own["topology"]
        self.label = own.get("label", self.topology)
        self.bandwidth = own.get("bandwidth", definition.model["bandwidth"])
        self.model: dict[str, float] = {**definition.model, "bandwidth": self.bandwidth}
        self.subject: str = definition.data["subject"]
        # A series has the same number, and so the same colour, on all panels.
        self.numbers = {key: number for number, key in enumerate(every)}
        self.series = {key: series for key, series in every.items() if key not in without}
        self.forms: dict[str, dict[str, Cost]] = {}
        for key, series in self.series.items():
            costs = {name: cost_of_form(name, self.topology, **self.model) for name in series["forms"]}
            if there := {name: cost for name, cost in costs.items() if cost is not None}:
                self.forms[key] = there
        self.missing = [key for key in self.series if key not in self.forms]
        self.rivals = [key for key in self.forms if key != self.subject and not self.series[key].get("aside")]
        topology = Topology(self.topology)
        self.ranks = topology.ranks
        # An allreduce sends everything twice by all 2D ports.
        self.peak = (sum(size > 1 for size in topology.dimensions) or 0.5) * self.bandwidth

    def best(self, key: str, size: int) -> str:
        """Returns the name of the fastest form of a series.

        Args:
            key: The series.
            size: The length of the vector in bytes.
        """
        return min(self.forms[key], key=lambda name: seconds(self.forms[key][name], size))

    def seconds(self, key: str, size: int) -> float:
        """Returns the time of the fastest form of a series.

        Args:
            key: The series.
            size: The length of the vector in bytes.
        """
        return min(seconds(cost, size) for cost in self.forms[key].values())

    def rival(self, size: int) -> str:
        """Returns the fastest series that the subject is compared with.

        Args:
            size: The length of the vector in bytes.
        """
        return min(self.rivals, key=lambda key: self.seconds(key, size))

    def winner(self, size: int) -> str:
        """Returns the fastest series; the subject if it is as fast as another one.

        Args:
            size: The length of the vector in bytes.
        """
        return self.subject if self.gain(size) >= 0 else self.rival(size)

    def gain(self, size: int, over: str | None = None, of: str | None = None) -> float:
        """Returns how much higher the goodput of one series is than that of another, as a fraction.

        Args:
            size: The length of the vector in bytes.
            over: The other series. None: the fastest that the subject is compared with.
            of: The series. None: the subject.
        """
        return self.seconds(over or self.rival(size), size) / self.seconds(of or self.subject, size) - 1

    def gains(self) -> list[float]:
        """Returns the subject's gain over the fastest other series, for each size."""
        return [self.gain(size) for size in self.sizes]

    def sweet_spot(self) -> int:
        """Returns the size with the largest gain."""
        return max(self.sizes, key=self.gain)

    def leads_until(self) -> int:
        """Returns the largest size up to which the subject is the fastest."""
        return max(takewhile(lambda size: self.winner(size) == self.subject, self.sizes), default=0)

    def form(self, name: str) -> Cost:
        """Returns the cost of a form.

        Args:
            name: The form's name.

        Raises:
            ValueError: The panel has no such form.
        """
        found = {form: cost for forms in self.forms.values() for form, cost in forms.items()}
        if name not in found:
            raise ValueError(f"{self.label} has no form {name!r}; it has {', '.join(found)}")
        return found[name]
