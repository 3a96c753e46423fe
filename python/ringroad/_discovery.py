"""`ringroad.discover`: what the network between a job's hosts is, found out by its ranks."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ringroad._native import Communicator, Topology
from ringroad._support.text import bandwidth_text, check_class, seconds_text

BUDGET = 1.5
"""The default of the seconds that discovery may take."""


class DiscoveredLink(NamedTuple):
    """A link of a discovered network: one direction of a cable.

    Attributes:
        source: The node where it starts: a rank, or behind the ranks a router, a switch or the memory of a host.
        target: The node where it ends.
        bandwidth: Bytes per second.
        latency: Seconds.
        how: "measured", "derived" (it carried this much, and may carry more) or "assumed".
        spread: How far single measurements were from the bandwidth, relative to it; None if it was not measured.
    """

    source: int
    target: int
    bandwidth: float
    latency: float
    how: Literal["measured", "derived", "assumed"]
    spread: float | None


@dataclass(frozen=True)
class Discovery:
    """What ranks have found out about their network. `ringroad.discover` returns it.

    Attributes:
        topology: The network, with rates, latencies, and routes where they are known.
        recognised: The spec of the known network that it is, such as "torus:3x3"; None if it is a graph without a name.
        positions: The position of each rank on that network; None if it is not a known one.
        links: The links, with what is known of each.
        notes: What could not be found out, and what was assumed instead, in sentences.
        evidence: What was observed: addresses, routes, flows and latencies, as JSON holds them.
    """

    topology: Topology
    recognised: str | None
    positions: list[int] | None
    links: list[DiscoveredLink]
    notes: list[str]
    evidence: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Returns what `ringroad discover --json` writes: ranks, links as [from, to, bytes per second, seconds], the
        name of the network and the positions of ranks on it, and how it was found out."""
        return {
            "ranks": self.topology.ranks,
            "links": [list(link[:4]) for link in self.links],
            "topology": self.recognised,
            "positions": self.positions,
            "how": {
                "links": [{"how": link.how, "spread": link.spread} for link in self.links],
                "notes": self.notes,
                "evidence": self.evidence,
            },
        }

    def save(self, path: str | Path) -> None:
        """Writes the topology for RINGROAD_TOPOLOGY.

        Args:
            path: The file, which ends in .json.
        """
        self.topology.save(path)

    def lines(self) -> list[str]:
        """Returns what was found, in sentences."""
        named = [f"{self.recognised or 'a graph'} of {self.topology.ranks} ranks"]
        if self.positions is not None and self.positions != sorted(self.positions):
            named.append(f"ranks are at the positions {','.join(map(str, self.positions))}")
        latencies = sorted(link.latency for link in self.links)
        if latencies:
            named.append(f"the median latency of a link is {seconds_text(latencies[len(latencies) // 2])}")
        return named + self.notes

    def __repr__(self) -> str:
        rates = sorted({bandwidth_text(link.bandwidth) for link in self.links})
        named = self.recognised or f"a graph of {self.topology.ranks} ranks"
        shown = " and ".join(rates) if len(rates) < 3 else f"{len(rates)} rates"
        return f"<Discovery {named}, {len(self.links)} links of {shown}>"


def discover(comm: Communicator, *, budget: float = BUDGET, timeout: float | None = None) -> Discovery:
    """Finds out how the hosts of a communicator's ranks are connected: routes, links, rates and latencies.

    Collective: all ranks call it, and get the same result. Datagrams and short flows go between the addresses of the
    job's own hosts; no privileges are needed. Where all ranks share a host nothing is sent.

    Args:
        comm: The communicator.
        budget: About how many seconds it may take. 0: routes only.
        timeout: Seconds to wait for other ranks. None: the communicator's.

    Returns:
        A `Discovery`.

    Raises:
        TopologyError: Nothing follows from what was found.
        TimeoutError: Ranks did not come in time.
        PeerError: A rank was lost meanwhile.

    Example:
        >>> with ringroad.testbed.emulate("ring:3", rate="100Mbit", tell="nothing") as bed:
        ...     bed.run(lambda comm: ringroad.discover(comm).recognised)[0]
        'ring:3'
    """
    check_class("comm", comm, Communicator)
    text = comm._discover(budget, timeout)
    return _read(json.loads(text))


def _read(discovered: dict[str, Any]) -> Discovery:
    found = discovered["found"]
    topology = Topology.from_json(json.dumps(found["topology"]))
    links = [
        DiscoveredLink(
            source, target, bandwidth * capacity, latency + extra, rate["how"],
            None if rate["how"] == "assumed" else rate["spread"],
        )
        for (source, target, bandwidth, capacity, latency, extra), rate in zip(
            topology._links(), found["links"], strict=True
        )
    ]  # fmt: skip
    return Discovery(
        topology=topology,
        recognised=found["recognised"],
        positions=found["positions"],
        links=links,
        notes=found["notes"],
        evidence=discovered["evidence"],
    )
