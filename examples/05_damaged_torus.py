"""Predict how much bandwidth an allreduce keeps when cables of an 8x8 torus fail, by algorithm.

    python examples/05_damaged_torus.py
    python examples/05_damaged_torus.py --plot damaged.png    # needs matplotlib

This makes predictions only, without communication.
"""

import argparse

import ringroad

CABLES = [(0, 1), (20, 28), (45, 46)]
ALGORITHMS = ["swing", "bucket", "hamiltonian-rings", "ring", "bfb", "weighted-trees:2048", "spanning-trees:2048"]

parser = argparse.ArgumentParser()
parser.add_argument("--plot", metavar="FILE", help="save a picture")
file = parser.parse_args().plot

model = ringroad.CostModel()
torus = ringroad.Topology("torus:8x8")
# A lower bound of the busiest link's load: 2 (N - 1) / N vectors leave every rank, over four links.
bound = 2 * (torus.ranks - 1) / torus.ranks / 4

kept: dict[str, list[float]] = {algorithm: [] for algorithm in ALGORITHMS}
for failed in range(len(CABLES) + 1):
    left = torus.without_links(CABLES[:failed])
    for algorithm in ALGORITHMS:
        cost = model.cost(ringroad.Schedule.build(algorithm, left), left, 1 << 28)
        kept[algorithm].append(bound / cost.link_load)

print("cables gone" + "".join(f"{failed:6}" for failed in range(len(CABLES) + 1)))
for algorithm, shares in kept.items():
    print(f"{algorithm:<20.20}" + "".join(f"{share:6.2f}" for share in shares))

if file:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for algorithm, shares in kept.items():
        axes.plot(range(len(shares)), shares, marker="o", label=algorithm)
    axes.set(xlabel="cables that have failed", ylabel="share of the healthy bandwidth", ylim=(0, 1.02))
    axes.set_xticks(range(len(CABLES) + 1))
    figure.legend(loc="outside right upper")
    figure.savefig(file, dpi=120)
