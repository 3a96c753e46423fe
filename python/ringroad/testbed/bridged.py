"""Networks whose switches are bridges: they have no IP address, and all hosts see each other in one hop."""

from ringroad._native import TopologyError
from ringroad.testbed.fabric import DEVICE, QUIET, Fabric, address, directions
from ringroad.testbed.wiring import Cable, Wiring

_BRIDGE = "bridge"
_READY = "while grep -qv 3 /sys/class/net/to*/brport/state; do sleep 0.01; done"  # 3: the port passes packets on


def check(wiring: Wiring) -> None:
    """Raises TopologyError if the switches of a wiring cannot be bridges."""
    what = f"{wiring.topology.spec} behind bridges"
    for host in range(wiring.hosts):
        ends = [cable.ends for cable in wiring.cables if host in cable.ends]
        if len(ends) != 1 or max(ends[0]) < wiring.hosts:
            cables = "a cable to another host" if len(ends) == 1 else f"{len(ends)} cables"
            raise TopologyError(f"{what}: {wiring.names[host]} has {cables}, and not one cable to a switch")
    if len(wiring.cables) >= len(wiring.names):
        raise TopologyError(f"{what}: its cables form a loop, in which bridges would pass on packets for ever")


class Bridged(Fabric):
    """Each host has one device, with an address in the network of all hosts. Bridges learn where hosts are."""

    def device(self, node: int, peer: int) -> str:
        return DEVICE if node < self.wiring.hosts else super().device(node, peer)

    def build(self) -> None:
        for host in self.hosts:
            host.ip(["link set lo up"])
            host.write(QUIET)
        for node in range(self.wiring.hosts, len(self.hosts)):
            self.hosts[node].ip([f"link add {_BRIDGE} mtu {self.mtu} type bridge", f"link set {_BRIDGE} up"])
        self.lay_all()
        # Linux notices up to a second later that both ends of a cable are up.
        for node in range(self.wiring.hosts, len(self.hosts)):
            self.hosts[node].read("sh", "-c", _READY)

    def lay(self, cable: Cable) -> None:
        super().lay(cable)
        for node, peer, _ in directions(cable):
            device = self.device(node, peer)
            if node < self.wiring.hosts:
                self.hosts[node].ip([f"address add {address(node)}/16 dev {device}", f"link set {device} up"])
            else:
                self.hosts[node].ip([f"link set {device} up master {_BRIDGE}"])

    def cut(self, cable: Cable) -> None:
        self._plug(cable, "nomaster")

    def mend(self, cable: Cable) -> None:
        self._plug(cable, f"master {_BRIDGE}")

    def _plug(self, cable: Cable, where: str) -> None:
        """Puts the cable into a port of its bridge, or takes it out: its carrier stays, so that no host is told."""
        other, switch = cable.ends  # switches are numbered last
        self.hosts[switch].ip([f"link set dev {self.device(switch, other)} {where}"])

    def follow(self, wiring: Wiring) -> None:
        """Nothing: what bridges join is a tree, whose routes are always the same."""
