"""What callers see of the tensors of a call: gradients, strides, shapes and values."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import helpers
import torch
import torch.distributed as dist

from ranks import FORMS, world

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x[..., 0] * 1,
    "transposed": lambda x: (x[..., 0] * 1).transpose(1, 2),
    "channels_last": lambda x: x[..., 0].contiguous(memory_format=torch.channels_last),
    "sliced": lambda x: x[..., 0],
    "scalar": lambda x: x[0, 0, 0, 0, 0] if len(x) == 4 else x[:2, 0, 0, 0, 0] * 1,
    "empty": lambda x: x[:, :0, ..., 0],
}
"""Tensors made of one of shape (rows, 2, 2, 3, 2). With 8 rows they have twice as many elements as with 4."""

WATCHED = [
    ("nothing", "nothing"),
    ("leaf", "nothing"),
    ("result", "nothing"),
    ("nothing", "leaf"),
    ("result", "result"),
]
"""What autograd knows of the tensors that are sent and of those that receive: leaves, or results of leaves."""


class Maker:
    """Makes tensors for a call, and remembers the leaves from which autograd computes them."""

    def __init__(self, layout: str, sent: str, received: str) -> None:
        self.layout, self.how = layout, {"sent": sent, "received": received}
        self.leaves: list[torch.Tensor] = []

    def make(self, role: str, rows: int = 4) -> torch.Tensor:
        start = torch.arange(24.0 * rows).reshape(rows, 2, 2, 3, 2) + 1000 * (len(self.leaves) + dist.get_rank())
        if self.how[role] == "result":
            self.leaves.append(start.requires_grad_())
            return LAYOUTS[self.layout](start * 2)
        made = LAYOUTS[self.layout](start)
        if self.how[role] == "leaf":
            made = made.detach().requires_grad_()
        self.leaves.append(made)
        return made


def prepared(kind: str, maker: Maker) -> tuple[list[torch.Tensor], Callable[..., Any]]:
    """The tensors that a collective of two ranks will write, and the call."""
    rank = dist.get_rank()
    root = 1

    def given(rows: int = 4) -> torch.Tensor:
        return maker.make("sent", rows)

    def new(rows: int = 4) -> torch.Tensor:
        return maker.make("received", rows)

    def call(function: Callable[..., Any], *args: Any) -> Callable[..., Any]:
        return lambda **how: function(*args, **how)

    match kind:
        case "all_reduce":
            mine = given()
            return [mine], call(dist.all_reduce, mine)
        case "all_reduce_coalesced":
            both = [given(), given()]
            return both, call(dist.all_reduce_coalesced, both)
        case "all_reduce_coalesced of the same":
            mine = given()
            return [mine], call(dist.all_reduce_coalesced, [mine, mine[..., :1], mine] if mine.dim() else [mine, mine])
        case "broadcast":
            mine = given()
            return [mine], call(dist.broadcast, mine, root)
        case "reduce":
            mine = given()
            return [mine] if rank == root else [], call(dist.reduce, mine, root)
        case "all_gather_into_tensor":
            out = new(8)
            return [out], call(dist.all_gather_into_tensor, out, given())
        case "all_gather":
            outs = [new(), new()]
            return outs, call(dist.all_gather, outs, given())
        case "all_gather_coalesced":
            lists = [[new(), new()], [new(), new()]]
            return lists[0] + lists[1], call(dist.all_gather_coalesced, lists, [given(), given()])
        case "reduce_scatter_tensor":
            out = new()
            return [out], call(dist.reduce_scatter_tensor, out, given(8))
        case "reduce_scatter":
            out = new()
            return [out], call(dist.reduce_scatter, out, [given(), given()])
        case "gather":
            outs = [new(), new()] if rank == root else []
            return outs, call(dist.gather, given(), outs or None, root)
        case "scatter":
            out = new()
            return [out], call(dist.scatter, out, [given(), given()] if rank == root else None, root)
        case "all_to_all_single":
            out = new(8)
            return [out], call(dist.all_to_all_single, out, given(8))
        case "all_to_all_single with sizes":
            out, sizes = new(8), [2, 6] if rank == 0 else [6, 2]
            if maker.layout == "scalar":
                sizes = [1, 1]
            return [out], call(dist.all_to_all_single, out, given(8), sizes, sizes)
        case "all_to_all":
            outs = [new(), new()]
            return outs, call(dist.all_to_all, outs, [given(), given()])
        case "send and recv":
            mine, out = given(), new()

            def exchange(async_op: bool, group: Any) -> Any:
                sent = dist.isend(mine, 1 - rank, group=group)
                got = dist.irecv(out, 1 - rank, group=group)
                for work in (sent, got):
                    work.wait()

            return [out], exchange
    raise AssertionError(kind)


IN_PLACE = ["all_reduce", "all_reduce_coalesced", "all_reduce_coalesced of the same", "broadcast", "reduce"]
KINDS = [
    *IN_PLACE,
    "all_gather_into_tensor",
    "all_gather",
    "all_gather_coalesced",
    "reduce_scatter_tensor",
    "reduce_scatter",
    "gather",
    "scatter",
    "all_to_all_single",
    "all_to_all_single with sizes",
    "all_to_all",
    "send and recv",
]


AS_MEMORY = ["all_reduce", "broadcast", "reduce", "scatter"]
IN_ORDER = ["all_to_all_single", "all_to_all_single with sizes", "send and recv"]


def gloo_is_wrong(kind: str, layout: str, watched: bool) -> str:
    """Why gloo does not tell what is right."""
    if watched and kind not in AS_MEMORY + IN_ORDER:
        return (
            "Autograd takes its copies, or torch's dispatcher, for what the tensor was computed from, or refuses them."
        )
    if layout == "sliced" and kind in [*AS_MEMORY, "reduce_scatter"]:
        return "It takes the memory from the first element on for the tensor's."
    if layout in ("transposed", "channels_last", "sliced") and kind in IN_ORDER:
        return "It refuses memory whose elements are not in order."
    if layout == "scalar" and kind in ("all_gather_into_tensor", "reduce_scatter_tensor"):
        return "It refuses the first, and crashes in the second."
    return ""


@dataclass
class Sight:
    """What a caller sees of the tensors that a call wrote."""

    forms: list[Any]
    gradients: list[Any]
    changes: list[int]
    """How often autograd was told of a new value."""
    values: list[torch.Tensor]


def seen(kind: str, layout: str, sent: str, received: str, group: Any, async_op: bool) -> Sight:
    """After a call; without a group, without the call."""
    maker = Maker(layout, sent, received)
    outputs, start = prepared(kind, maker)
    versions = [one._version for one in outputs]
    if group is not None:
        work = start(group=group, async_op=async_op)
        if work is not None:
            work.wait()
    changes = [one._version - version for one, version in zip(outputs, versions, strict=True)]
    forms = [(one.shape, one.stride(), one.requires_grad, one.is_leaf, type(one.grad_fn).__name__) for one in outputs]
    values = [one.detach().clone() for one in outputs]
    if watched := [one.sum() for one in outputs if one.requires_grad]:
        torch.stack(watched).sum().backward()
    gradients = [None if leaf.grad is None else leaf.grad.tolist() for leaf in maker.leaves]
    return Sight(forms, gradients, changes, values)


def check_beside_gloo() -> None:
    """A call changes values, and nothing else that a caller or autograd sees. gloo agrees, where it is right."""
    with world():
        ours, *others = [dist.new_group(backend=form) for form in [*FORMS, "gloo"]]
        gloo = others[-1]
        for turn, (kind, layout, watched) in enumerate(itertools.product(KINDS, LAYOUTS, WATCHED)):
            if kind in IN_PLACE and watched[1] != "nothing":
                continue
            before = seen(kind, layout, *watched, None, False)
            groups = (
                [ours, *others] if watched == WATCHED[0] else [ours, gloo]
            )  # torch's dispatcher is in a Backend's way
            if gloo_is_wrong(kind, layout, watched != WATCHED[0]):
                groups.remove(gloo)
            results = [seen(kind, layout, *watched, group, turn % 2 == 0) for group in groups]
            for group, after in zip(groups, results, strict=True):
                where = kind, layout, watched, groups.index(group)
                assert (after.forms, after.gradients) == (before.forms, before.gradients), (where, before, after)
                assert not any(after.changes) or group is gloo, (where, after.changes)
                assert all(map(torch.equal, after.values, results[0].values)), (where, after, results[0])
        for group in (ours, *others[:-1]):
            kind, text = helpers.failure_of(lambda g=group: dist.all_reduce(torch.ones(2).expand(3, 2), group=g))
            assert kind == "ValueError" and "share memory" in text, (kind, text)
