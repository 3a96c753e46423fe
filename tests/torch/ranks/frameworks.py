"""Torch's libraries for distributed training."""

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import ReduceOp

from ranks import world
from ranks.training import tiny_model


def check_listeners() -> None:
    """Who listens at the dispatcher hears the calls; functional collectives, DTensor and FSDP2 work."""
    from torch.distributed._functional_collectives import all_gather_tensor, all_reduce, reduce_scatter_tensor
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh
    from torch.distributed.tensor.debug import CommDebugMode

    with world() as (rank, ranks):
        with CommDebugMode() as listener:
            dist.all_reduce(tensor := torch.ones(3))
            dist.all_gather_into_tensor(torch.empty(3 * ranks), tensor)
        assert (tensor == ranks).all() and listener.get_total_counts() == 2

        everybody = list(range(ranks))
        assert (all_reduce(torch.ones(3), "sum", everybody) == ranks).all()
        assert all_gather_tensor(torch.tensor([rank]), 0, everybody).tolist() == everybody
        assert (reduce_scatter_tensor(torch.ones(ranks), "sum", 0, everybody) == ranks).all()

        mesh = init_device_mesh("cpu", (ranks,))
        whole = torch.arange(24.0).view(6, 4)
        sharded = DTensor.from_local(whole, mesh, [Replicate()]).redistribute(mesh, [Shard(0)])
        assert torch.equal((sharded @ sharded.t()).full_tensor(), whole @ whole.t())

        torch.manual_seed(0)
        model, twin = tiny_model(), tiny_model()
        twin.load_state_dict(model.state_dict())
        fully_shard(model, mesh=mesh)
        x = torch.randn(8, 20, generator=torch.Generator().manual_seed(rank))
        (model(x) ** 2).sum().backward()
        (twin(x) ** 2).sum().backward()
        for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            dist.all_reduce(theirs.grad, ReduceOp.AVG)
            torch.testing.assert_close(ours.grad.full_tensor(), theirs.grad)
