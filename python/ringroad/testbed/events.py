"""What happens to an emulated network at given times: cables break or become slower, others send, all is restored."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ringroad._support.files import read_text
from ringroad._support.text import parse_bandwidth, parse_seconds
from ringroad.testbed.network import EmulatedNetwork


def _place(text: str) -> int | str:
    """A rank, or the name of a host or a switch."""
    return int(text) if text.isdecimal() else text


_ACTIONS: dict[str, tuple[Callable[[str], int | str | float], ...]] = {
    "cut": (_place, _place),
    "slow": (_place, _place, float),
    "load": (_place, _place, parse_bandwidth),
    "reroute": (),
    "restore": (),
}
"""The methods of a network that may be called, and what reads their arguments."""
_FORMS = "cut A B, slow A B FACTOR, load A B RATE, reroute or restore"
_SHOWN = 60  # errors show this many characters of a wrong event


@dataclass(frozen=True)
class Event:
    """Something that happens after a number of seconds."""

    seconds: float
    text: str
    action: str
    arguments: tuple[int | str | float, ...]

    @staticmethod
    def of(seconds: float, text: str) -> "Event":
        """Reads what happens, such as `slow 0 1 4`. Raises ValueError."""
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"an event happens 0 or more seconds after the start, not {seconds:g}")
        action, *words = text.split() or [""]
        readers = _ACTIONS.get(action)
        if readers is None or len(words) != len(readers):
            raise ValueError(f"{text[:_SHOWN]!r} is not an event of a testbed; expected one of: {_FORMS}")
        return Event(
            seconds, text.strip(), action, tuple(read(word) for read, word in zip(readers, words, strict=True))
        )

    def check(self, network: EmulatedNetwork) -> None:
        """Raises TestbedError or ValueError if this cannot happen to the network."""
        if self.action in ("cut", "slow"):
            network.cable(*self.arguments[:2])  # type: ignore[arg-type]
        elif self.action == "load":
            network.ends(*self.arguments[:2])  # type: ignore[arg-type]

    def happen(self, network: EmulatedNetwork) -> None:
        """Lets it happen to the network."""
        getattr(network, self.action)(*self.arguments)


def parse(text: str) -> Event:
    """Reads a line such as `3s slow 0 1 4`. Raises ValueError."""
    seconds, _, rest = text.strip().partition(" ")
    return Event.of(parse_seconds(seconds), rest)


def read(path: Path) -> list[Event]:
    """Reads a file with an event on each line, and comments after `#`. Raises ValueError or OSError."""
    lines = [line.partition("#")[0].strip() for line in read_text(path).splitlines()]
    return [parse(line) for line in lines if line]


class Script:
    """Events that happen to a network one after the other, while `happen` is called now and then."""

    def __init__(self, network: EmulatedNetwork, events: list[Event]) -> None:
        """Raises TestbedError or ValueError if an event cannot happen to the network."""
        self._network = network
        self._left = sorted(events, key=lambda event: event.seconds)
        for event in self._left:
            event.check(network)

    def happen(self, seconds: float) -> list[Event]:
        """Lets everything happen that is due after this many seconds, and returns it."""
        happened = []
        while self._left and self._left[0].seconds <= seconds:
            happened.append(self._left.pop(0))
            happened[-1].happen(self._network)
        return happened
