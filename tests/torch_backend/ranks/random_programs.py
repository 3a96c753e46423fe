"""Random programs of torch.distributed, the same over gloo and over ringroad. Each rank compares what both give it.

A program makes groups, and then has phases. In a phase all members of a group make the same calls, some of them
asynchronous, and wait for them in orders and ways of their own. All numbers are small and whole, so sums are exact.
gloo refuses some types, layouts and operations, or takes the memory from the first element on for the tensor. So it
gets plain tensors of a long type, and sums for averages: what it computes from them is what others must give, too.
"""

import contextlib
import threading
import warnings
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from ranks import FORMS, world
from ranks.values import is_guarded, strided

FLOATS, COMPLEX = ["float32", "float16", "bfloat16", "float64"], ["complex64", "complex128"]
WHOLE = ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]
OPS = {"SUM": FLOATS + COMPLEX + WHOLE} | dict.fromkeys(["PRODUCT", "MIN", "MAX", "AVG"], FLOATS + WHOLE)
OPS |= {op: [*WHOLE, "bool"] for op in ("BAND", "BOR", "BXOR")}
SHAPES = [(), (0,), (1,), (1,), (5,), (7,), (3, 2), (4, 0), (2, 3, 4), (700,), (64, 33)]
LAYOUTS = ["plain", "offset", "strided", "transposed", "leaf", "result", "inference", "negative"]
REDUCING = ["all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "coalesced"]
MOVING = [
    "broadcast", "all_gather", "all_gather_into_tensor", "all_gather_coalesced", "gather", "scatter", "all_to_all",
    "all_to_all_single", "all_to_all_uneven", "barrier", "monitored_barrier", "messages", "messages_of_any", "objects",
]  # fmt: skip
UNIT = 1000
"""The imaginary unit, where gloo computes."""


class Step(NamedTuple):
    """A call that all members of a group make."""

    kind: str
    group: int
    dtype: str
    op: str
    shape: tuple[int, ...]
    root: int
    async_op: bool
    seed: int


def step(random: Random, groups: list[list[int]]) -> Step:
    kind, group = random.choice(REDUCING + MOVING), random.randrange(len(groups))
    op = random.choice(list(OPS)) if kind in REDUCING else "SUM"
    dtype = random.choice(OPS[op] if kind in REDUCING else [*OPS["SUM"], "bool"])
    shape = (300_000,) if random.random() < 0.03 else random.choice(SHAPES)
    root, seed = random.randrange(len(groups[group])), random.randrange(999)
    return Step(kind, group, dtype, op, shape, root, random.random() < 0.6, seed)


class Call:
    """A step on a rank."""

    def __init__(self, step: Step, group: Any, ranks: list[int], backend: str) -> None:
        self.step, self.group, self.ranks, self.backend = step, group, ranks, backend
        self.size, self.me, self.root = len(ranks), ranks.index(dist.get_rank()), ranks[step.root]
        self.is_root, self.plain = self.me == step.root, backend == "gloo"
        self.type: torch.dtype = getattr(torch, step.dtype)
        self.long = torch.float64 if step.dtype in FLOATS + COMPLEX else torch.int64
        self.random = Random(step.seed * 10 + self.me)
        self.guarded: list[torch.Tensor] = []
        self.op = "SUM" if self.plain and step.op == "AVG" else step.op
        self.many = (self.size * step.shape[0], *step.shape[1:]) if step.shape else (self.size,)

    def numbers(self, shape: tuple[int, ...], *seeds: int) -> torch.Tensor:
        """As gloo gets them. Products of them are exact, too."""
        start = sum(seed * factor for seed, factor in zip((self.step.seed, *seeds), (1, 31, 17), strict=False))
        mixed = ((torch.arange(torch.Size(shape).numel()) + start) * 2654435761 % 1000003).reshape(shape)
        if self.step.op == "PRODUCT" or self.step.dtype == "bool":
            return (mixed % 2 + (self.step.dtype != "bool")).to(self.long)
        numbers = mixed % 7 - (0 if self.step.dtype.startswith("u") else 3)
        return (numbers * (1 + UNIT if self.type.is_complex else 1)).to(self.long)

    def typed(self, numbers: torch.Tensor) -> torch.Tensor:
        imaginary = (numbers / UNIT).round()
        return (torch.complex(numbers - UNIT * imaginary, imaginary) if self.type.is_complex else numbers).to(self.type)

    def seen(self, result: Any) -> Any:
        """A result as both libraries should give it."""
        if not isinstance(result, torch.Tensor):
            return result
        result = result.detach().reshape(-1).resolve_neg().clone()
        if not self.plain:
            return result
        rounding = None if self.long is torch.float64 else "trunc"
        return self.typed(result.div(self.size, rounding_mode=rounding) if self.step.op == "AVG" else result)

    def lay(self, numbers: torch.Tensor) -> torch.Tensor:
        """The numbers as a tensor of the call's type, in some layout."""
        if self.plain:
            return numbers if numbers.dim() else numbers.reshape(1)
        values = self.typed(numbers)
        match self.random.choice(LAYOUTS):
            case "offset":
                return torch.cat([values.new_zeros(3), values.reshape(-1)])[3:].view(values.shape)
            case "strided" if values.numel():
                self.guarded.append(strided(values.reshape(-1)))
                return self.guarded[-1].as_strided(values.shape, [2 * one for one in values.stride()])
            case "transposed" if values.dim() > 1:
                return values.transpose(0, 1).contiguous().transpose(0, 1)
            case "leaf" if values.is_floating_point():
                return torch.nn.Parameter(values)
            case "result" if values.is_floating_point():
                with torch.enable_grad():
                    return values.requires_grad_() * 1
            case "inference":
                with torch.inference_mode():
                    return values.clone()
            case "negative" if values.is_floating_point() and self.backend == FORMS[0]:
                return torch._neg_view(-values)  # torch's dispatcher would copy what a Backend has not yet received
        return values

    def given(self, *seeds: int, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        return self.lay(self.numbers(self.step.shape if shape is None else shape, *(seeds or (self.me,))))

    def new(self, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        return self.lay(torch.ones(self.step.shape if shape is None else shape, dtype=self.long))

    def each(self, numbers: Callable[[int], torch.Tensor]) -> list[torch.Tensor]:
        """A tensor for each rank: separate ones, or pieces of one."""
        every = list(map(numbers, range(self.size)))
        separate = self.plain or self.random.random() < 0.5
        return list(map(self.lay, every)) if separate else list(self.lay(torch.stack(every)).unbind())

    def news(self) -> list[torch.Tensor]:
        return self.each(lambda _: torch.ones(self.step.shape, dtype=self.long))

    def givens(self) -> list[torch.Tensor]:
        return self.each(lambda one: self.numbers(self.step.shape, self.me, one))

    def start(self) -> tuple[Any, Any]:
        """Returns Works, or None, and what the call will have given."""
        step, root, op = self.step, self.root, getattr(dist.ReduceOp, self.op)
        how: Any = {"group": self.group, "async_op": step.async_op}
        match step.kind:
            case "all_reduce":
                return dist.all_reduce(mine := self.given(), op, **how), [mine]
            case "broadcast":
                return dist.broadcast(mine := self.given(), root, **how), [mine]
            case "reduce":
                return dist.reduce(mine := self.given(), root, op, **how), [mine] * self.is_root
            case "all_gather":
                return dist.all_gather(outs := self.news(), self.given(), **how), outs
            case "all_gather_coalesced":
                lists, given = [self.news() for _ in range(2)], [self.given(self.me, one) for one in range(2)]
                by_rank = [list(row) for row in zip(*lists, strict=True)]
                return dist.all_gather_coalesced(by_rank, given, **how), [*lists[0], *lists[1]]
            case "all_gather_into_tensor":
                return dist.all_gather_into_tensor(out := self.new(self.many), self.given(), **how), [out]
            case "gather":
                outs = self.news() if self.is_root else None
                return dist.gather(self.given(), outs, root, **how), outs
            case "scatter":
                given = self.givens() if self.is_root else None
                return dist.scatter(out := self.new(), given, root, **how), [out]
            case "reduce_scatter":
                return dist.reduce_scatter(out := self.new(), self.givens(), op, **how), [out]
            case "reduce_scatter_tensor":
                given = self.given(shape=self.many)
                within = not self.plain and step.shape and self.random.random() < 0.3
                out = given.chunk(self.size)[self.me] if within else self.new()
                return dist.reduce_scatter_tensor(out, given, op, **how), [out]
            case "all_to_all":
                return dist.all_to_all(outs := self.news(), self.givens(), **how), outs
            case "all_to_all_single":
                given = self.given(shape=self.many)
                return dist.all_to_all_single(out := self.new(self.many), given, **how), [out]
            case "all_to_all_uneven":
                out, given, got, sent = self.uneven()
                if self.plain or step.root % 2:
                    return dist.all_to_all_single(out, given, got, sent, **how), [out]
                return dist.all_to_all(list(out.split(got)), list(given.split(sent)), **how), [out]
            case "barrier":
                return dist.barrier(**how), []
            case "monitored_barrier":
                return dist.monitored_barrier(self.group), []
            case "coalesced":
                return self.coalesced(op)
            case "messages":
                return self.messages()
            case "messages_of_any":
                return self.messages_of_any()
            case "objects":
                return None, self.objects()
        raise AssertionError(step.kind)

    def uneven(self) -> tuple[torch.Tensor, torch.Tensor, list[int], list[int]]:
        sent = [(self.step.seed + 3 * self.me + 5 * to) % 4 for to in range(self.size)]
        got = [(self.step.seed + 3 * source + 5 * self.me) % 4 for source in range(self.size)]
        rest = self.step.shape[1:]
        return self.new((sum(got), *rest)), self.given(shape=(sum(sent), *rest)), got, sent

    def coalesced(self, op: Any) -> tuple[Any, list[torch.Tensor]]:
        """Three calls as one; gloo makes them one by one."""
        kind = self.step.seed % (2 if self.step.op == "AVG" else 3)
        given = [self.given(self.me, one, shape=self.many if kind == 1 else None) for one in range(3)]
        outs = [self.new(self.many if kind == 2 else None) for _ in given] if kind else given
        manager = dist._coalescing_manager(self.group, torch.device("cpu"), async_ops=self.step.async_op)
        with contextlib.nullcontext() if self.plain else manager as work:
            for out, one in zip(outs, given, strict=True):
                if kind == 0:
                    dist.all_reduce(one, op, self.group)
                elif kind == 1:
                    dist.reduce_scatter_tensor(out, one, op, self.group)
                else:
                    dist.all_gather_into_tensor(out, one, self.group)
        return work if self.step.async_op else None, outs

    def messages(self) -> tuple[Any, list[torch.Tensor]]:
        """Between random pairs, each alone or all as a batch, which has no tags."""
        random = Random(self.step.seed)
        posts, outs = [], []
        for number in range(random.randrange(8) if self.size > 1 else 0):
            source, to = random.sample(range(self.size), 2)
            tag, shape = random.randrange(3), random.choice(SHAPES[1:])
            if self.me == source:
                posts.append((dist.isend, self.given(number, shape=shape), self.ranks[to], self.group, tag))
            elif self.me == to:
                outs.append(self.new(shape))
                posts.append((dist.irecv, outs[-1], self.ranks[source], self.group, tag))
        if self.step.async_op:
            return dist.batch_isend_irecv([dist.P2POp(*post[:-1]) for post in posts]) if posts else [], outs
        works = [start(*arguments) for start, *arguments in posts]
        return self.random.sample(works, len(works)), outs

    def messages_of_any(self) -> tuple[Any, list[torch.Tensor]]:
        """Everybody sends to the root, which takes what comes; gloo cannot if that is empty."""
        if self.plain and not torch.Size(self.step.shape).numel():
            return None, [self.new() for _ in range(self.size - 1)] * self.is_root
        if not self.is_root:
            return dist.isend(self.given(), self.root, self.group, self.step.seed), []
        got = {}
        for rank in self.ranks[: self.step.root] + self.ranks[self.step.root + 1 :]:
            named = rank if self.backend == FORMS[-1] else None  # of a Backend's Work torch cannot tell the source
            source = dist.recv(out := self.new(), named, self.group, self.step.seed)
            got[source] = out
        return None, [got[source] for source in sorted(got)]

    def objects(self) -> list[Any]:
        mine, some = {"of": self.me, "text": "x" * self.step.seed * self.me}, [None] * self.size
        match self.step.seed % 4:
            case 0:
                dist.all_gather_object(some, mine, self.group)
            case 1:
                dist.broadcast_object_list(some := [mine, self.me], self.root, self.group)
            case 2:
                dist.gather_object(mine, some if self.is_root else None, self.root, self.group)
            case 3:
                given = [(mine, one) for one in range(self.size)] if self.is_root else None
                dist.scatter_object_list(some := [None], given, self.root, self.group)
        return some

    def finish(self, work: Any, outputs: Any) -> list[Any]:
        for one in work if isinstance(work, list) else [work] if work is not None else []:
            match 0 if self.plain else self.random.randrange(4):
                case 1 if hasattr(one, "get_future"):
                    one.get_future().then(lambda future: future.value()).wait()
                case 2 if self.backend == FORMS[0] and hasattr(one, "is_completed"):
                    while not one.is_completed():
                        pass
                case 3:
                    (thread := threading.Thread(target=one.wait)).start()
                    thread.join()
                case _:
                    one.wait()
        assert all(map(is_guarded, self.guarded)), self.step
        return list(map(self.seen, outputs or []))


def run(backend: str, seed: int) -> list[tuple[Step, list[Any]]]:
    """What this rank gets from each step, in the order in which it waits."""
    random, log = Random(seed), []
    with world(backend, apart=True) as (rank, ranks):
        groups = [sorted(random.sample(range(ranks), random.randrange(1, ranks + 1))) for _ in range(3)]
        # torch counts groups, so that only the last may be made by its members alone.
        made = [dist.new_group(group, use_local_synchronization=group is groups[-1]) for group in groups]
        groups.append(list(range(ranks)))
        made.append(dist.group.WORLD)
        for _ in range(random.randrange(1, 5)):
            pending: list[Any] = []
            for one in [step(random, groups) for _ in range(random.randrange(1, 12))]:
                if rank in groups[one.group]:
                    call = Call(one, made[one.group], groups[one.group], backend)
                    with torch.no_grad():
                        pending.append((call, *call.start()))
            Random(seed + rank).shuffle(pending)
            log += [(call.step, call.finish(*rest)) for call, *rest in pending]
        dist.barrier()  # gloo's ranks cannot connect to one that has already ended
    return log


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return bool(one == other)


def check(first: int, count: int) -> int:
    """Runs the programs from this number on. Returns how many calls they made on this rank."""
    warnings.simplefilter("ignore")
    calls = 0
    for seed in range(first, first + count):
        form = FORMS[seed % len(FORMS)]
        theirs, ours = run("gloo", seed), run(form, seed)
        for (step, other), (_, one) in zip(theirs, ours, strict=True):
            assert len(one) == len(other) and all(map(same, one, other)), (seed, form, step, one, other)
        calls += len(ours)
    return calls
