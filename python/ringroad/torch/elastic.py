"""Elastic groups that train a model: the state is the model's and the optimizer's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from ringroad._native import Communicator
from ringroad._replicas import Part, ReplicaError
from ringroad.start.elastic import ElasticGroup
from ringroad.torch.replicas import _part
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
        minimum: int | None,
        timeout: float,
        patience: float,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        super().__init__(address, _Training(model, optimizer), minimum, timeout, patience)

    def train(self, loss: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Does one step: gradients of all members' losses, their average, and the optimizer's step.

        Args:
            loss: Returns the loss of this part of the batch, which the group's `rank`, `size` and `step` name. It is
                called again if members are lost.

        Returns:
            The loss, detached.

        Raises:
            RingroadError: As `run`.
        """

        def gradients(comm: Communicator) -> torch.Tensor:
            self.optimizer.zero_grad()
            value = loss()
            value.backward()  # type: ignore[no-untyped-call]
            for same in self._by_dtype():
                flat = torch.cat([block_of(gradient).reshape(-1) for gradient in same])
                if comm.size > 1:
                    comm._run_tensors("allreduce", flat, flat, op="avg")
                for gradient, average in zip(same, torch.split(flat, [one.numel() for one in same]), strict=True):
                    copy(gradient, average)
            return value.detach()

        return self.run(gradients, lambda _: self.optimizer.step())

    def _by_dtype(self) -> Iterator[list[torch.Tensor]]:
        gradients = [one.grad for one in self.model.parameters() if one.grad is not None]
        for dtype in dict.fromkeys(gradient.dtype for gradient in gradients):
            yield [gradient for gradient in gradients if gradient.dtype == dtype]


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
        kinds, kept, groups = json.loads(form)
        if kinds != self._kinds():
            raise ReplicaError(f"the group trains a model of {kinds}, but that of this process has {self._kinds()}")
        state = {int(index): {key: _made(value) for key, value in one.items()} for index, one in kept.items()}
        for group in groups:  # JSON has no tuples
            group |= {key: tuple(value) for key, value in group.items() if isinstance(value, list) and key != "params"}
        self._optimizer.load_state_dict({"state": state, "param_groups": groups})

    def parts(self) -> list[Part]:
        state = self._optimizer.state_dict()["state"]
        tensors = {
            f"optimizer.{index}.{key}": value
            for index, one in sorted(state.items())
            for key, value in one.items()
            if isinstance(value, torch.Tensor)
        }
        return [_part(name, tensor, None) for name, tensor in [*self._tensors(), *tensors.items()]]

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
        return torch.zeros(described[2], dtype=getattr(torch, described[1]))
    return described
