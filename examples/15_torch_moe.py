"""Train a mixture of experts whose experts are spread over ranks, and compare every gradient with gloo's.

    python examples/15_torch_moe.py                          # starts 4 ranks by itself
    torchrun --nproc-per-node 4 examples/15_torch_moe.py     # or torchrun starts them

Each rank has two experts and its own points. A gate sends each point to the best two experts of all ranks. The numbers
of points differ in every step, so the ranks first exchange counts, then blocks of unequal length (all_to_all_single),
and then return the results. The process group treats its ranks as a ring, and the blocks use the algorithm `flow`, in
which ranks forward blocks for others (set RINGROAD_TOPOLOGY and RINGROAD_ALGO to change that). Each step also runs over
gloo, from the same parameters.
"""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the ranks share the cores

import ringroad.torch
import torch
import torch.distributed as dist
from ringroad.torch import Options
from torch import nn
from torch.nn.functional import cross_entropy

RANKS = 4
EXPERTS = 2  # of each rank
CHOSEN = 2  # for each point
CLASSES = 10
FEATURES = 64
WIDTH = 32
STEPS = 12
BATCH = 64  # of each rank
RATE = 0.5


class Exchange(torch.autograd.Function):
    """Sends blocks of rows to all ranks. The backward pass returns the gradients in the same way."""

    @staticmethod
    def forward(ctx, rows, sent, received, group):
        ctx.sent, ctx.received, ctx.group = sent, received, group
        output = rows.new_empty(sum(received), *rows.shape[1:])
        dist.all_to_all_single(output, rows.contiguous(), received, sent, group=group)
        return output

    @staticmethod
    def backward(ctx, gradient):
        return Exchange.apply(gradient, ctx.received, ctx.sent, ctx.group), None, None, None


class Experts(nn.Module):
    """This rank's experts, behind a gate that is equal on all ranks."""

    def __init__(self, ranks: int, rank: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.ranks = ranks
        self.gate = nn.Linear(WIDTH, ranks * EXPERTS)
        torch.manual_seed(1 + rank)
        self.mine = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)) for _ in range(EXPERTS)
        )

    def forward(self, tokens: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        weights, chosen = self.gate(tokens).softmax(1).topk(CHOSEN)
        order = chosen.flatten().argsort(stable=True)  # by expert, and so by rank
        counts = chosen.flatten().bincount(minlength=self.ranks * EXPERTS)
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts, group=group)
        sent, received = (some.view(self.ranks, EXPERTS).sum(1).tolist() for some in (counts, theirs))

        arrived = Exchange.apply(tokens[order // CHOSEN], sent, received, group)
        # From each rank the points of the first expert come first, then those of the second.
        expert = torch.arange(EXPERTS).repeat(self.ranks).repeat_interleave(theirs)
        results = torch.zeros_like(arrived)
        for number, module in enumerate(self.mine):
            rows = torch.nonzero(expert == number).flatten()
            results = results.index_copy(0, rows, module(arrived[rows]))
        returned = Exchange.apply(results, received, sent, group)
        weighted = returned * weights.flatten()[order, None]
        return torch.zeros_like(tokens).index_add(0, order // CHOSEN, weighted)


class Classifier(nn.Module):
    def __init__(self, ranks: int, rank: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.experts = Experts(ranks, rank)

    def forward(self, points: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        tokens = self.first(points)
        return self.last(tokens + self.experts(tokens, group))

    def replicated(self) -> list[nn.Parameter]:
        """The parameters that are equal on all ranks: all but the experts."""
        return [parameter for name, parameter in self.named_parameters() if ".mine." not in name]


def gradients(
    model: Classifier, points: torch.Tensor, labels: torch.Tensor, group: dist.ProcessGroup
) -> tuple[float, list[torch.Tensor]]:
    """The mean loss of all ranks, and its gradients."""
    model.zero_grad(set_to_none=False)
    loss = cross_entropy(model(points, group), labels) / dist.get_world_size()
    loss.backward()
    for parameter in model.replicated():
        dist.all_reduce(parameter.grad, group=group)
    mean = loss.detach().clone()
    dist.all_reduce(mean, group=group)
    return mean.item(), [parameter.grad.clone() for parameter in model.parameters()]


def main() -> None:
    if "RANK" not in os.environ:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        os.execv(sys.executable, [sys.executable, *launcher, __file__])
    ranks = int(os.environ["WORLD_SIZE"])
    network = os.environ.get("RINGROAD_TOPOLOGY", f"ring:{ranks}")
    algorithms = os.environ.get("RINGROAD_ALGO", "alltoall:flow")
    dist.init_process_group("ringroad", pg_options=Options(topology=network, algorithm=algorithms))
    torch.set_num_threads(1)
    rank, gloo = dist.get_rank(), dist.new_group(backend="gloo")
    model = Classifier(ranks, rank)
    centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(0))
    chance = torch.Generator().manual_seed(rank)

    losses, worst = [], 0.0
    for step in range(STEPS):
        labels = torch.randint(CLASSES, (BATCH,), generator=chance)
        points = centres[labels] + torch.randn(BATCH, FEATURES, generator=chance)
        loss, ours = gradients(model, points, labels, dist.group.WORLD)
        other, theirs = gradients(model, points, labels, gloo)
        for mine, same in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine, same, rtol=1e-4, atol=1e-6)
            worst = max(worst, (mine - same).abs().max().item())
        assert abs(loss - other) < 1e-5, f"the loss is {loss} over ringroad and {other} over gloo"
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), ours, strict=True):
                parameter -= RATE * gradient
        losses.append(loss)
        if rank == 0 and (step % 4 == 0 or step == STEPS - 1):
            print(f"step {step + 1:>2}: loss {loss:.4f}")
    assert losses[-1] < losses[0] / 2, losses

    difference = torch.tensor(worst)
    dist.all_reduce(difference, dist.ReduceOp.MAX)
    if rank == 0:
        communicator = ringroad.torch.communicator(dist.group.WORLD)
        counts = communicator.algorithm_for("alltoall", 8 * ranks * EXPERTS)
        blocks = communicator.algorithm_for("alltoall", 4 * BATCH * CHOSEN * WIDTH)
        print(f"{ranks} ranks with {EXPERTS} experts each on {communicator.topology}")
        print(f"counts go by {counts}, blocks by {blocks}")
        print(f"all {len(ours)} gradients of {STEPS} steps as over gloo: at most {difference:.1e} apart")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
