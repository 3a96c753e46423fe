"""Describe your network, and predict the best allreduce on it.

    python examples/04_any_network.py

Needs networkx. This makes predictions only, without communication.
"""

import ringroad

MEGABYTE = 1 << 20


def best(topology):
    """The fastest allreduce of a megabyte by the cost model."""
    first = ringroad.CostModel().explain("allreduce", topology, MEGABYTE).candidates[0]
    return f"{first.algorithm} in {first.seconds * 1e6:.1f} us"


# Families come with ringroad; `ringroad topology` lists them.
for spec in ["torus:8x8", "mesh:8x8", "hyperx:8x8", "hammingmesh:2x2:4x4", "fattree:8x8:2", "switch:64"]:
    network = ringroad.Topology(spec)
    print(f"{spec}: {len(network.links)} links, diameter {network.diameter}: {best(network)}")

# Any graph works, from networkx or from a file. This one is a torus with a failed cable: algorithms still see the
# torus,
# and messages go around the cable.
graph = ringroad.Topology("torus:8x8").to_graph()
graph.remove_edges_from([(0, 1), (1, 0)])
broken = ringroad.Topology.from_graph(graph, name="broken")
print(f"without the cable from 0 to 1, {broken.route(0, 1)[0]} hops apart now: {best(broken)}")

# A cluster of two switches with slower uplinks, set link by link.
cluster = ringroad.Topology("fattree:2x4").to_graph()
for source, target, link in cluster.edges(data=True):
    if source >= 8 and target >= 8:
        link["bandwidth"] = 5e9
print(f"two switches: {best(ringroad.Topology.from_graph(cluster, name='two-switches'))}")
