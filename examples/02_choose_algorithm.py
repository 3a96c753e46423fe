"""Which algorithm for an allreduce? Ask the cost model, look at a schedule, verify it, and run it.

    python examples/02_choose_algorithm.py

The first part needs no network and no other process.
"""

import numpy as np
import ringroad

ring = ringroad.Topology("ring:9", bandwidth=12.5e9, latency=0.5e-6)
model = ringroad.CostModel(step_latency=1e-6)

for size in (1 << 10, 1 << 20, 1 << 26):
    print(f"allreduce of {size >> 10} KiB on {ring.spec}")
    for candidate in model.explain("allreduce", ring, size).candidates[:3]:
        print(
            f"  {candidate.algorithm:20} {candidate.seconds * 1e6:10.1f} us  {candidate.ratio:5.2f}x"
            f"  {candidate.steps:2} steps  {candidate.link_load:.2f} vectors over the busiest links"
        )

print("\nthe choice, by size:")
for start, algorithm in model.switch_points("allreduce", ring):
    print(f"  from {start:10} bytes: {algorithm}")

# Every algorithm is a constructor of schedules. A schedule can be printed, stored, compared and verified.
schedule = ringroad.Schedule.build("trivance", 9)
schedule.verify()
print(f"\n{schedule}")

with ringroad.local(9, topology=ring) as cluster:
    used = cluster.run(lambda comm: [comm.algorithm_for("allreduce", size) for size in (1 << 10, 1 << 20)])
    totals = cluster.run(lambda comm: comm.allreduce(np.ones(5), algorithm="trivance"))
print("chosen on rank 0:", used[0])
print("by trivance:", totals[0])
