"""Multiply matrices that are spread over ranks, with DTensor over ringroad, and count what is communicated.

    python examples/12_dtensor.py

A DTensor knows how it is spread over a mesh of ranks: in slices (Shard), as equal copies (Replicate), or as parts that
are not added up yet (Partial). Operations move as little data as possible; `redistribute` moves the rest. The last part
is a two-layer network whose first weight is cut by columns and the second by rows, so it needs a single all-reduce.
"""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the ranks share the cores

import torch
import torch.distributed as dist
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode

RANKS = 4


def main() -> None:
    if "RANK" not in os.environ:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        os.execv(sys.executable, [sys.executable, *launcher, __file__])
    dist.init_process_group("ringroad")
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    a, b = torch.randn(1000, 600), torch.randn(600, 400)

    show(f"{'a':<12}{'b':<12}{'product':<24}communication")
    for left, right in ((Shard(0), Replicate()), (Replicate(), Shard(1)), (Shard(1), Shard(0))):
        spread = distribute_tensor(a, mesh, [left]), distribute_tensor(b, mesh, [right])
        with CommDebugMode() as counted:
            product = spread[0] @ spread[1]
            placement = product.placements[0]
            if placement == Partial():
                product = product.redistribute(mesh, [Shard(0)])
        counts = ", ".join(f"{count} {call.__name__}" for call, count in counted.get_comm_counts().items() if count)
        torch.testing.assert_close(product.full_tensor(), a @ b, rtol=1e-4, atol=1e-4)
        show(f"{left!s:<12}{right!s:<12}{placement!s:<24}{counts or 'none'}")

    plane = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("rows", "columns"))
    tiles = distribute_tensor(a, plane, [Shard(0), Shard(1)])
    tile, grid = tuple(tiles.to_local().shape), tuple(plane.shape)
    show(f"\non a mesh of {grid[0]} by {grid[1]} every rank keeps a tile of {tile}")
    torch.testing.assert_close(tiles.sum(0).full_tensor(), a.sum(0), rtol=1e-4, atol=1e-3)

    x, first, second = torch.randn(64, 600), torch.randn(600, 800) / 25, torch.randn(800, 600) / 25
    same = distribute_tensor(x, mesh, [Replicate()])
    columns, rows = distribute_tensor(first, mesh, [Shard(1)]), distribute_tensor(second, mesh, [Shard(0)])
    with CommDebugMode() as counted:
        out = torch.relu(same @ columns) @ rows
        whole = out.redistribute(mesh, [Replicate()])
    torch.testing.assert_close(whole.to_local(), torch.relu(x @ first) @ second, rtol=1e-3, atol=1e-3)
    show(f"two layers, cut by columns and by rows: {counted.get_total_counts()} collective; what one process computes")
    dist.destroy_process_group()


def show(text: str) -> None:
    if dist.get_rank() == 0:
        print(text)


if __name__ == "__main__":
    main()
