"""The process group of jobs in which ringroad is the only backend.

torch's own ProcessGroup takes 4 to 6 us to bring a call through its dispatcher to a Python backend. This class is
called directly, and returns the complete `Work` (through a Backend, torch wraps it in one with only `wait` and
`get_future`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup

from ringroad._support.text import check_class
from ringroad.torch.backend import RingroadBackend
from ringroad.torch.calls import NAME
from ringroad.torch.membership import GroupMember, Options
from ringroad.torch.tensors import Wrapper
from ringroad.torch.versions import MODERN, OLDER_NAMES
from ringroad.torch.work import Work

# Bound once, because every call asks.
_dispatch_modes = torch._C._len_torch_dispatch_stack


class RingroadProcessGroup(ProcessGroup):
    """Calls a RingroadBackend, which is also registered with torch for callers that ask for a backend."""

    def __init__(self, member: GroupMember, backend: RingroadBackend | None = None) -> None:
        if MODERN:
            super().__init__(member.store, member.rank, member.size)
        else:  # the constructor with a store makes no object that can be extended
            super().__init__(member.rank, member.size)
        self.backend = backend or RingroadBackend(member, splitting=True)
        self._member = member
        if MODERN:
            kind, backend = ProcessGroup.BackendType.CUSTOM, self.backend
        else:
            kind, backend = ProcessGroup.BackendType.GLOO, _gloo(member, self.backend.place)
        self._register_backend(torch.device("cpu"), kind, backend)
        self._set_default_backend(kind)

    def getBackendName(self) -> str:
        return NAME

    if not MODERN:  # torch's own methods would call those of the registered backend gloo, which do nothing

        def abort(self) -> None:
            self.backend.abort()

        def shutdown(self) -> None:
            self.backend.shutdown()

        # Dynamo does not recognise a subclass of ProcessGroup, and traces only methods in Python.
        def rank(self) -> int:
            return self._member.rank

        def size(self) -> int:
            return self._member.size

    def split_group(
        self,
        new_ranks: Sequence[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Sequence[torch.device] | None = None,
    ) -> RingroadProcessGroup | None:
        """A group of some of this group's ranks; `new_ranks` are ranks of this group. Returns None on all others."""
        if self._member.rank not in new_ranks:
            return None
        if opts is not None and not isinstance(opts, Options):
            raise TypeError(f"ringroad: pg_options must be ringroad.torch.Options, not {type(opts).__name__}")
        name = group_name or f"{self.group_name}:split:{'_'.join(map(str, new_ranks))}"
        child = RingroadProcessGroup(self._member.part(new_ranks, name, timeout, opts, self.backend.communicator))
        child._set_group_name(name)  # type: ignore[arg-type]
        child._set_group_desc(group_desc or f"{self.group_desc}:split")
        return child


def _gloo(member: GroupMember, place: c10d.Store) -> Any:
    """A gloo backend for torch's dispatcher, for versions without Backends in Python. Calls of both may be mixed."""
    timeout = timedelta(seconds=member.options.seconds(member.timeout))
    return c10d.ProcessGroupGloo(c10d.PrefixStore("gloo/", place), member.rank, member.size, timeout)


def _direct(
    name: str,
    inputs: int,
    options: type | None,
    *,
    lists: bool = False,
    always_work: bool = False,
    past_modes: bool = False,
) -> Callable[..., Any]:
    """A ProcessGroup method that calls the backend's method of the same name directly if it can.

    It goes through torch's dispatcher instead if a dispatch mode is active (CommDebugMode, make_fx, fake tensors), if a
    tensor wraps another one (what functional collectives return), or if the arguments are not the `inputs` (lists, if
    `lists`) and options: torch has overloads such as `broadcast(tensor, 0)`. With `always_work` the method never
    returns None, because torch's C++ callers need a Work. With `past_modes` it is called directly in any mode: through
    the dispatcher a Work comes back without its source, which `recv` from any rank asks for.
    """
    ours = getattr(RingroadBackend, name)
    if not hasattr(ProcessGroup, name):
        name = OLDER_NAMES.get(name, name)
    theirs = getattr(ProcessGroup, name, None)

    def plain(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if len(args) != inputs or not kwargs.keys() <= {"opts"}:
            return False
        return not lists or all(type(argument) is list for argument in args)

    def method(self: RingroadProcessGroup, *args: Any, **kwargs: Any) -> Work | None:
        if ((args and type(args[-1]) is options) or plain(args, kwargs)) and (past_modes or not _dispatch_modes()):
            try:
                work: Work | None = ours(self.backend, *args, **kwargs)
                return Work((), ()) if work is None and always_work else work
            except Wrapper:
                pass
        if theirs is None:
            raise NotImplementedError(f"ringroad: this version of torch has no {name} with these arguments")
        work = theirs(self, *args, **kwargs)
        return work

    # By the function's name torch tells a call of `theirs` inside this method from one that it must pass to this
    # method.
    method.__code__ = method.__code__.replace(co_name=name, co_qualname=f"RingroadProcessGroup.{name}")
    method.__name__, method.__qualname__ = name, f"RingroadProcessGroup.{name}"
    method.__doc__ = ours.__doc__
    compiled_never: Callable[..., Any] = _never_compile(method)
    return compiled_never


def _never_compile(method: Any) -> Any:
    """Like torch.compiler.disable, but without its costs: a second of import and 0.2 us per call.

    Dynamo neither traces the method into a graph nor compiles its frame, or those it calls, when torch calls it out of
    compiled code.
    """
    frames = torch._C._dynamo.eval_frame
    try:
        skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
        frames.set_code_exec_strategy(method.__code__, skip)
    except AttributeError:  # these names are internal to torch
        return torch.compiler.disable(method)  # type: ignore[no-untyped-call]
    method._torchdynamo_disable = True
    method._torchdynamo_disable_msg = "ringroad's collectives run eagerly"
    return method


_METHODS = [
    _direct("allreduce", 1, c10d.AllreduceOptions, lists=True),
    _direct("allreduce_coalesced", 1, c10d.AllreduceCoalescedOptions, lists=True),
    _direct("broadcast", 1, c10d.BroadcastOptions, lists=True),
    _direct("reduce", 1, c10d.ReduceOptions, lists=True),
    _direct("all_gather_single", 2, c10d.AllgatherOptions),
    _direct("all_gather_single_coalesced", 2, c10d.AllgatherOptions, lists=True, always_work=True),
    _direct("reduce_scatter_single", 2, c10d.ReduceScatterOptions),
    _direct("reduce_scatter_single_coalesced", 2, c10d.ReduceScatterOptions, lists=True, always_work=True),
    _direct("all_to_all_single", 4, c10d.AllToAllOptions, always_work=True),
    _direct("allgather", 2, c10d.AllgatherOptions, lists=True),
    _direct("allgather_coalesced", 2, c10d.AllgatherOptions, lists=True),
    _direct("reduce_scatter", 2, c10d.ReduceScatterOptions, lists=True),
    _direct("gather", 2, c10d.GatherOptions, lists=True),
    _direct("gather_single", 2, c10d.GatherOptions),
    _direct("scatter", 2, c10d.ScatterOptions, lists=True),
    _direct("alltoall", 2, c10d.AllToAllOptions, lists=True),
    _direct("send", 3, None),
    _direct("recv", 3, None),
    _direct("recv_anysource", 2, None, past_modes=True),
    _direct("barrier", 0, c10d.BarrierOptions),
]
for _method in _METHODS:
    setattr(RingroadProcessGroup, _method.__name__, _method)


def backend_of(group: ProcessGroup | None) -> RingroadBackend:
    """The backend of a group, or of the default group. Raises ValueError if there is none yet, and TypeError if none of
    its backends is ringroad."""
    if group is None:
        group = dist.group.WORLD
    if group is None:
        raise ValueError("ringroad: there is no process group; call init_process_group first")
    check_class("group", group, ProcessGroup)
    if isinstance(group, RingroadProcessGroup):
        return group.backend
    backends = [group._get_backend(device) for device in group._device_types]
    for backend in backends:
        if isinstance(backend, RingroadBackend):
            return backend
    names = ", ".join(backend.name() for backend in backends)
    raise TypeError(f"ringroad: the group's backends are {names or 'none'}, none of them ringroad")
