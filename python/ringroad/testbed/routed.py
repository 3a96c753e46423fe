"""Networks in which every host and every switch forwards packets by their IP addresses, along the topology's routes."""

from collections import Counter
from collections.abc import Sequence

from ringroad._native import TopologyError
from ringroad.testbed.fabric import DEVICE, QUIET, Fabric, address, directions, mac_address
from ringroad.testbed.namespaces import Host
from ringroad.testbed.wiring import Cable, Wiring

_NOBODY = "02:77:ff:ff:ff:ff"  # the address of no device: packets to it are lost silently
_FORWARD = {"net.ipv4.ip_forward": "1", "net.ipv4.conf.all.rp_filter": "0", **QUIET}
_TABLES = (1_000, 16_000)  # the first table of routes, and the first rule: of the present routes, and of the next
_MOST_CABLES = 254  # of a node, all of whose ends have addresses with the same first three numbers


class Routed(Fabric):
    """Each host has an address of its own, on a device of its own, and one more on each cable. All lead to it."""

    def __init__(self, wiring: Wiring, hosts: Sequence[Host], bandwidth: float, mtu: int) -> None:
        super().__init__(wiring, hosts, bandwidth, mtu)
        self._followed: Wiring | None = None
        self._tables = list(_TABLES)
        self._rules: list[list[tuple[str, int]]] = []
        self._ends: dict[tuple[int, int], str] = {}
        cables = Counter[int]()
        for cable in wiring.cables:
            for node, peer, _ in directions(cable):
                cables[node] += 1
                self._ends[node, peer] = _end(node, cables[node])
        if max(cables.values()) > _MOST_CABLES:
            raise TopologyError(f"{wiring.topology.spec}: a node of a testbed has up to {_MOST_CABLES} cables")

    def build(self) -> None:
        for node, host in enumerate(self.hosts):
            # The device with the host's address is a veth pair, too; both of its ends are on this host.
            host.ip(
                [
                    "link set lo up",
                    f"link add {DEVICE} mtu {self.mtu} type veth peer name {DEVICE}-end mtu {self.mtu}",
                    f"address add {address(node)}/32 dev {DEVICE}",
                    f"link set {DEVICE}-end up",
                    f"link set {DEVICE} up",
                ]
            )
            host.write(_FORWARD)
        self.lay_all()
        for node, host in enumerate(self.hosts):
            # UCX uses a device only for destinations whose most specific route goes by it. The rules of `follow` come
            # first, so packets never take these routes.
            others = [other for other in range(self.wiring.hosts) if other != node]
            host.ip([f"route add {place} dev {DEVICE}" for other in others for place in _places(other)])
        self.follow(self.wiring)

    def lay(self, cable: Cable) -> None:
        """Each end has an address, and knows the hardware address of the other end."""
        super().lay(cable)
        for node, peer, _ in directions(cable):
            device, here, there = self.device(node, peer), self._ends[node, peer], self._ends[peer, node]
            self.hosts[node].ip([f"address add {here} peer {there} dev {device}", f"link set {device} up"])
        self.mend(cable)

    def cut(self, cable: Cable) -> None:
        self._join(cable, _NOBODY)

    def mend(self, cable: Cable) -> None:
        self._join(cable)

    def _join(self, cable: Cable, other: str | None = None) -> None:
        """Sets the hardware address to which both ends send: each other's, or `other`."""
        for node, peer, _ in directions(cable):
            to = f"lladdr {other or mac_address(peer, node)} nud permanent dev {self.device(node, peer)}"
            self.hosts[node].ip([f"neighbour replace {self._ends[peer, node]} {to}"])

    def follow(self, wiring: Wiring) -> None:
        """No packet ever finds no route: a node follows its new routes before it forgets the old ones."""
        if self._followed is wiring:
            return
        self._followed = wiring
        self._tables.reverse()
        routes = [self._routes(node, wiring, self._tables[0]) for node in range(len(self.hosts))]
        for host, (lines, rules) in zip(self.hosts, routes, strict=True):
            host.ip([*lines, *(f"rule add {rule}" for rule, _ in rules)])
        for host, old in zip(self.hosts, self._rules, strict=False):
            host.ip([f"rule delete {rule}" for rule, _ in old])
            host.ip([f"route flush table {table}" for table in sorted({table for _, table in old})])
        self._rules = [rules for _, rules in routes]

    def _routes(self, node: int, wiring: Wiring, first: int) -> tuple[list[str], list[tuple[str, int]]]:
        """The commands that make a node's routes in tables that nobody uses yet, numbered from `first`; and the rules
        that make packets take them, each with its table."""
        # A table of routes has the priority of its rule as its number. Packets from one host may take another route
        # than packets from others: each such host has a table, which comes before the table for all.
        general = first + len(wiring.names)
        routes = [(host, following, general) for (at, host), following in wiring.next_node.items() if at == node]
        for (at, source, host), following in wiring.exceptions.items():
            if at == node:
                routes.append((host, following, first + source))
        lines = []
        for host, following, table in routes:
            by = f"via {self._ends[following, node]} dev {self.device(node, following)} onlink src {address(node)}"
            lines += [f"route add {place} {by} table {table}" for place in _places(host)]
        rules = [
            (f"from {place} lookup {table} priority {table}", table)
            for table in sorted({table for _, _, table in routes} - {general})
            for place in _places(table - first)
        ]
        return lines, [*rules, (f"lookup {general} priority {general}", general)]


def _end(node: int, number: int) -> str:
    """The address of one of a node's cables at this node, numbered from 1."""
    return f"10.{78 + node // 256}.{node % 256}.{number}"


def _places(node: int) -> list[str]:
    """All addresses of a node: its own, and those of its ends of cables."""
    return [f"{address(node)}/32", f"{_end(node, 0)}/24"]
