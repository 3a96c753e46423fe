"""What `Communicator.transport` and `Communicator.network` return: what carries bytes, and what is between hosts."""

import json
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ringroad._native import Topology
from ringroad._support.text import bandwidth_text


@dataclass(frozen=True)
class Transport:
    """What carries the bytes of a communicator, as `Communicator.transport` returns it. `print` shows it in words.

    Attributes:
        text: In words, for example `shared memory (with 3 of 7 ranks), cma, ucx 1.22.0 (tcp; devices eth0)`.
        sharing: With how many other ranks this one shares memory.
        cma: Whether long messages are copied out of private memory of ranks that share memory.
        ucx: The version of UCX, if it carries the other messages; else None.
        means: The transports between hosts, such as "tcp"; empty before the first connection.
        devices: The network devices that it uses, if they are known.
    """

    text: str
    sharing: int
    cma: bool
    ucx: str | None
    means: list[str]
    devices: list[str]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Connection:
    """A tcp connection to another rank, as the kernel has counted it.

    Attributes:
        peer: The rank at the other end.
        address: Where that is.
        device: The network device of this rank, if the connection uses one only; else None.
        stream: Counts the connections to the peer by the same device, from 0.
        sent: The bytes that have been sent.
        received: The bytes that have come.
        sent_again: The retransmitted bytes.
        round_trip: How long an answer usually takes, in seconds.
        rate: The bytes per second that have arrived at the peer when it was last measured; short messages make it low.
    """

    peer: int
    address: str
    device: str | None
    stream: int
    sent: int
    received: int
    sent_again: int
    round_trip: float
    rate: float


class ChangedLink(NamedTuple):
    """Links from one node to another that carry more or less than before.

    Attributes:
        source: The node where they start: a rank, or behind the ranks a router or a switch.
        target: The node where they end.
        before: The bytes per second that they carried together; 0 if there were none.
        now: The bytes per second that they carry now; 0 if no route leads over them any more.
    """

    source: int
    target: int
    before: float
    now: float


@dataclass(frozen=True)
class NetworkChange:
    """A change of the network to which all ranks have reacted, before the same call.

    Attributes:
        call: The number of that collective call, counted from 1.
        links: The links that have changed.
        rank: The rank whose calls took longer, or shorter, than usual; None if it is not known.
        ratio: How many times as long as usual they took.
        took: What the latest of them took, in seconds.
        predicted: What was predicted of it.
    """

    call: int
    links: list[ChangedLink]
    rank: int | None
    ratio: float | None
    took: float | None
    predicted: float | None

    def __str__(self) -> str:
        links = ", ".join(
            f"{link.source}>{link.target}: {_text(link.before)} to {_text(link.now)}" for link in self.links
        )
        return f"before call {self.call}: {links}"


def _text(rate: float) -> str:
    return bandwidth_text(rate) if rate else "nothing"


class WrongLink(NamedTuple):
    """Links from one node to another that are not as the named network has them.

    Attributes:
        source: The node where they start: a rank, or behind the ranks a router or a switch.
        target: The node where they end.
        named: The bytes per second that they should carry together, by the name and by the other links; 0 if the named
            network has none.
        found: The bytes per second that the ranks have found; 0 if there are none.
    """

    source: int
    target: int
    named: float
    found: float


@dataclass(frozen=True)
class Mismatch:
    """How the network that was named differs from the one that the ranks have found.

    Attributes:
        links: The links that differ.
        is_reordered: Whether it is the named network, but its ranks stand in another order.
        spec: What is right for RINGROAD_TOPOLOGY; None if the network has no name.
        words: What differs, in a few words each.
    """

    links: list[WrongLink]
    is_reordered: bool
    spec: str | None
    words: list[str]


@dataclass(frozen=True)
class Straggle:
    """Ranks that were the reason that calls took longer than usual. The links were as before.

    Attributes:
        call: The number of the collective call before which all ranks have looked, counted from 1.
        ranks: The ranks that came late to the calls before it, so that the others waited.
        ratio: How many times as long as usual calls took.
    """

    call: int
    ranks: list[int]
    ratio: float


@dataclass(frozen=True)
class NetworkView:
    """The network as the ranks of a communicator see it.

    Attributes:
        topology: The network as it is now.
        origin: Where it comes from: "given" by the user, "found" by the ranks, or "assumed".
        watched: Whether the ranks measure again when calls take longer or shorter than they used to.
        mismatch: How the network that was given differs from the one that the ranks found at first; None if it does
            not, as far as can be told.
        changes: What has changed since the communicator was made.
        stragglers: Which ranks, and not the network, were the reason that calls took longer than usual.
        connections: This rank's tcp connections to other hosts; none if UCX carries the messages.
    """

    topology: Topology
    origin: Literal["given", "found", "assumed"]
    watched: bool
    mismatch: Mismatch | None
    changes: list[NetworkChange]
    stragglers: list[Straggle]
    connections: list[Connection]

    @classmethod
    def _read(cls, text: str) -> "NetworkView":
        view = json.loads(text)
        return cls(
            topology=Topology.from_json(json.dumps(view["topology"])),
            origin=view["origin"].lower(),
            watched=view["watched"],
            mismatch=view["mismatch"] and _mismatch(view["mismatch"]),
            changes=[
                NetworkChange(
                    call=change["call"],
                    links=[ChangedLink(**link) for link in change["links"]],
                    **(change["reason"] or dict.fromkeys(("rank", "ratio", "took", "predicted"))),
                )
                for change in view["changes"]
            ],
            stragglers=[
                Straggle(call=one["call"], ranks=one["ranks"], ratio=one["reason"]["ratio"])
                for one in view["stragglers"]
            ],
            connections=[Connection(**one) for one in view["connections"]],
        )


def _mismatch(found: dict[str, Any]) -> Mismatch:
    links = [WrongLink(**link) for link in found["links"]]
    return Mismatch(links, found["is_reordered"], found["spec"], found["words"])
