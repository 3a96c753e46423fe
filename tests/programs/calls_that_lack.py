"""Makes calls that need more than the package's dependencies. Prints what they say."""

import json

import numpy
import ringroad
from ringroad.lab import viz

with ringroad.local(2) as cluster:
    total = cluster.run(lambda comm: comm.allreduce(numpy.ones(3)).tolist())[0]
simulation = ringroad.lab.simulate("swing", "torus:4x4", 1024)
texts = []
for call in (
    simulation.plot,
    lambda: simulation.plot("links"),
    ringroad.lab.find(ranks=16, degree=2).plot,
    lambda: viz.curves(None, "ring:4", 1024),
    simulation.df,
    lambda: ringroad.Topology("ring:4").to_graph(),
):
    try:
        texts.append(str(call()))
    except (ImportError, ringroad.TopologyError) as error:
        texts.append(str(error))
print(json.dumps([total, texts]))
