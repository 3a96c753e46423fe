"""Elastic groups that train a model: the state is the model's and the optimizer's."""

import json
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ringroad._native import Communicator
from ringroad._replicas import ReplicaError, ReplicaPart
from ringroad._support.files import parse_json
from ringroad._support.text import check_class
from ringroad.start.elastic import ElasticGroup
from ringroad.torch.replicas import part_of
from ringroad.torch.tensors import block_of, copy


class ElasticTraining(ElasticGroup):
    """An elastic group that trains a model. `ringroad.torch.elastic` makes it.

    Attributes:
        model: The model.
        optimizer: Its optimizer.
    """

    def __init__(
        self,
        address: str,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        *limits: Any,
    ) -> None:
        check_class("model", model, nn.Module)
        check_class("optimizer", optimizer, torch.optim.Optimizer)
        self.model, self.optimizer = model, optimizer
        super().__init__(address, _Training(model, optimizer), *limits)

    def train(self, loss: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Does one step: gradients of all members' losses, their average, and the optimizer's step.

        Buffers that the model changes, such as the statistics of a batch norm, become those of rank 0.

        Args:
            loss: Returns the loss of this part of the batch, which the group's `rank`, `size` and `step` name. It is
                called again if members are lost.

        Returns:
            The loss, detached.

        Raises:
            RingroadError: As `run`.
        """

        buffers = list(self.model.buffers())
        moved: list[torch.Tensor] = []

        def gradients(comm: Communicator) -> torch.Tensor:
            self.optimizer.zero_grad()
            before = _copies(buffers)
            try:
                value = loss()
                value.backward()  # type: ignore[no-untyped-call]
            finally:  # the state changes only when the step is committed
                moved[:] = _copies(buffers)
                _write(buffers, before)
            _together(comm, [one.grad for one in self.model.parameters() if one.grad is not None], "allreduce", "avg")
            _together(comm, moved, "broadcast")
            return value.detach()

        def step(_: torch.Tensor) -> None:
            _write(buffers, moved)
            self.optimizer.step()

        return self.run(gradients, step)


def _together(comm: Communicator, tensors: list[torch.Tensor], collective: str, op: str = "sum") -> None:
    """Calls a collective in place on many tensors, as few as have dtypes of their own."""
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
        same = [tensor for tensor in tensors if tensor.dtype == dtype]
        flat = torch.cat([block_of(tensor).reshape(-1) for tensor in same])
        if comm.size > 1:
            comm._run_tensors(collective, flat, flat, op=op)
        for tensor, part in zip(same, torch.split(flat, [one.numel() for one in same]), strict=True):
            copy(tensor, part)


def _copies(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def _write(tensors: list[torch.Tensor], values: list[torch.Tensor]) -> None:
    for tensor, value in zip(tensors, values, strict=True):
        copy(tensor, value)


class _Training:
    """A model and an optimizer as the state of a group. An optimizer has tensors only from its first step on."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._model, self._optimizer = model, optimizer

    def form(self) -> bytes:
        state = self._optimizer.state_dict()
        kept = {
            str(index): {key: _described(value) for key, value in one.items()} for index, one in state["state"].items()
        }
        return json.dumps([self._kinds(), kept, state["param_groups"]]).encode()

    def adopt(self, form: bytes) -> None:
        try:
            kinds, kept, groups = parse_json(form, "the form of the group's state", (object, dict, [dict]))
            for group in groups:  # JSON has no tuples
                lists = {key: value for key, value in group.items() if isinstance(value, list) and key != "params"}
                group |= {key: tuple(value) for key, value in lists.items()}
            if kinds == self._kinds():
                state = {int(index): {key: _made(one[key]) for key in one} for index, one in kept.items()}
                self._optimizer.load_state_dict({"state": state, "param_groups": groups})
        except (ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
            raise ReplicaError(f"the group's optimizer is not like that of this process: {error}") from error
        if kinds != self._kinds():
            raise ReplicaError(f"the group trains a model of {kinds}, but that of this process has {self._kinds()}")

    def parts(self) -> list[ReplicaPart]:
        state = self._optimizer.state_dict()["state"]
        tensors = {
            f"optimizer.{index}.{key}": value
            for index, one in sorted(state.items())
            for key, value in one.items()
            if isinstance(value, torch.Tensor)
        }
        return [part_of(name, tensor, None) for name, tensor in [*self._tensors(), *tensors.items()]]

    def _tensors(self) -> list[tuple[str, torch.Tensor]]:
        return [*self._model.named_parameters(), *self._model.named_buffers()]

    def _kinds(self) -> list[list[Any]]:
        return [[name, *_described(tensor)] for name, tensor in self._tensors()]


def _described(value: Any) -> Any:
    """A tensor without its elements; any other value as it is."""
    if isinstance(value, torch.Tensor):
        return ["tensor", str(value.dtype).removeprefix("torch."), list(value.shape)]
    return value


def _made(described: Any) -> Any:
    """A tensor of zeros for a description."""
    if isinstance(described, list) and described[:1] == ["tensor"]:
        _, dtype, shape = described
        return torch.zeros(shape, dtype=getattr(torch, dtype), device="cpu")
    return described
