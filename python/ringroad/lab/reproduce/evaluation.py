"""The lines of a panel: the time of every series for every size."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

from ringroad._costs import Cost
from ringroad._native import Algorithm, CostModel, Schedule, Topology
from ringroad.lab.reproduce.definition import Definition, Model, Setting


@dataclass(frozen=True)
class Form:
    """An algorithm on the panel's network."""

    name: str
    cost: Cost

    def seconds(self, size: int) -> float:
        return self.cost.fixed + self.cost.per_byte * size


@lru_cache(maxsize=512)
def _form(name: str, spec: str, bandwidth: float, model: Model) -> Form | None:
    """The form on this network; None if the algorithm does not run on it."""
    algorithm, _, part = name.partition("/")
    network = Topology(spec, bandwidth=bandwidth, latency=model.link_latency, processing=model.processing)
    if not Algorithm(algorithm).supports(network):
        return None
    schedule = Schedule.build(algorithm, network)
    if part:
        schedule = schedule.on_slice(int(part))
    # The papers' models have no cost of messages that meet at a port.
    costs = CostModel(step_latency=model.step_latency, incast_latency=0.0, reduce_cost=model.reduce_cost)
    return Form(name, costs.cost(schedule, network, 0))


class Panel:
    """What a figure shows of one network: how long every series takes for every size.

    Args:
        definition: The paper's evaluation.
        setting: The network, and the series that the panel leaves out.
        sizes: The lengths of the vector in bytes.
    """

    def __init__(self, definition: Definition, setting: Setting, sizes: Sequence[int]) -> None:
        self.setting = setting
        self.label = setting.label
        self.sizes = list(sizes)
        self.subject = definition.subject
        self._model = definition.model
        # A series has the same number, and so the same colour, on all panels.
        self.numbers = {series.key: number for number, series in enumerate(definition.series)}
        self.series = {series.key: series for series in definition.series if series.key not in setting.without}
        self.forms: dict[str, list[Form]] = {}
        for key, series in self.series.items():
            forms = (_form(name, setting.topology, setting.bandwidth, definition.model) for name in series.forms)
            if there := [form for form in forms if form is not None]:
                self.forms[key] = there
        self.missing = [key for key in self.series if key not in self.forms]
        network = Topology(setting.topology)
        wide = sum(size > 1 for size in network.dimensions)
        self.ranks = network.ranks
        # An allreduce sends everything twice by all 2D ports.
        self.peak = (wide or 0.5) * setting.bandwidth

    def best(self, key: str, size: int) -> Form:
        """Returns the fastest form of a series.

        Args:
            key: The series.
            size: The length of the vector in bytes.
        """
        return min(self.forms[key], key=lambda form: form.seconds(size))

    def seconds(self, key: str, size: int) -> float:
        """Returns the time of the fastest form of a series.

        Args:
            key: The series.
            size: The length of the vector in bytes.
        """
        return self.best(key, size).seconds(size)

    def goodput(self, key: str, size: int) -> float:
        """Returns how many bytes per second a series reduces.

        Args:
            key: The series.
            size: The length of the vector in bytes.
        """
        return size / self.seconds(key, size)

    def rivals(self) -> list[str]:
        """Returns all series that the subject is compared with."""
        return [key for key in self.forms if key != self.subject and not self.series[key].aside]

    def rival(self, size: int) -> str:
        """Returns the fastest series that the subject is compared with.

        Args:
            size: The length of the vector in bytes.
        """
        return min(self.rivals(), key=lambda key: self.seconds(key, size))

    def winner(self, size: int) -> str:
        """Returns the fastest series; the subject if it is as fast as another one.

        Args:
            size: The length of the vector in bytes.
        """
        rival = self.rival(size)
        return self.subject if self.gain(size) >= 0 else rival

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

    def form(self, name: str) -> Form:
        """Returns a form by its name.

        Args:
            name: An algorithm's name.

        Raises:
            ValueError: The panel has no such form.
        """
        found = {form.name: form for forms in self.forms.values() for form in forms}
        if name not in found:
            raise ValueError(f"{self.label} has no form {name!r}; it has {', '.join(found)}")
        return found[name]

    def on_square(self, name: str) -> Form:
        """Returns a form on the torus all of whose sides are as long as the shortest side of this network.

        Args:
            name: An algorithm's name.

        Raises:
            ValueError: The algorithm does not run there.
        """
        sides = Topology(self.setting.topology).dimensions
        square = "torus:" + "x".join([str(min(sides))] * len(sides))
        form = _form(name, square, self.setting.bandwidth, self._model)
        if form is None:
            raise ValueError(f"{name!r} does not run on {square}")
        return form
