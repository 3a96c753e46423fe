"""Measures a model's layers for `ringroad.lab.training`, by hooks while torch trains it."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch

from ringroad._support.text import check_class, whole
from ringroad.lab.training.model import Layer, Model

_REST = "(rest)"
"""Time that belongs to no layer: the loss, modules without a gradient, and the backward pass after the last
gradient."""

_MODEL = "(model)"  # parameters of the outermost module itself


def profile_layers(
    model: torch.nn.Module,
    *inputs: Any,
    loss: Callable[[Any], torch.Tensor] | None = None,
    repeat: int = 5,
    name: str | None = None,
    **options: Any,
) -> Model:
    """Measures how long each layer of a model takes while torch trains it. Returns the model for
    `ringroad.lab.training`.

    It trains `model(*inputs, **options)` once to warm up and then `repeat` times, and takes medians. Layers are the
    modules with parameters of their own whose gradients the backward pass makes, in the reverse of the order in
    which it completes them. A layer's forward time starts at the end of the layer before it; its backward time
    starts when the gradient before its own is complete. So what lies between layers is counted with the next one.
    The rest (the loss, and what is left after the last gradient) is a layer without a gradient. On a GPU the times
    are the GPU's. Weights do not change, but gradients are cleared, and modules update what they track of their
    inputs, such as averages of batch normalisation.

    Args:
        model: The module to train.
        inputs: Its arguments. The first dimension of the first tensor is taken for the batch.
        loss: Makes a number of the output. None: the output's `loss`, or its sum if it is one tensor.
        repeat: The number of measured iterations.
        name: The model's name. None: that of its class.
        options: Its keyword arguments.

    Returns:
        A `ringroad.lab.training.Model`.

    Raises:
        ValueError: `repeat` is less than 1, or the model has no parameter that wants a gradient.

    Example:
        >>> import torch
        >>> import ringroad.torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Linear(4, 2))
        >>> model = ringroad.lab.training.profile_layers(net, torch.ones(16, 8), repeat=1)
        >>> model.batch, model.bytes
        (16, 184)
    """
    check_class("model", model, torch.nn.Module)
    if whole("repeat", repeat) < 1:
        raise ValueError(f"ringroad: a profile needs 1 repetition or more, not {repeat}")
    owners = _owners(model)
    if not owners:
        raise ValueError(
            f"ringroad: {type(model).__name__} has no parameter that requires a gradient: nothing to measure"
        )
    device = next(iter(owners)).device
    runs = []
    with _hooks(model, owners) as record:
        for _ in range(repeat + 1):
            model.zero_grad(set_to_none=True)
            record.start(device)
            output = model(*inputs, **options)
            number = _loss(output, loss)
            record.mark("forward", _REST)
            number.backward()  # type: ignore[no-untyped-call]
            record.mark("backward", _REST)
            runs.append(record.end())
    model.zero_grad(set_to_none=True)
    return Model(name or type(model).__name__.lower(), _layers(runs[1:], owners), _batch(inputs, options))


@dataclass
class _Record:
    """One iteration's marks: (pass, layer, time)."""

    cuda: bool = False
    marks: list[tuple[str, str, Any]] = field(default_factory=list)

    def start(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        if self.cuda:
            torch.cuda.synchronize(device)
        self.marks = [("start", "", self._now())]

    def mark(self, phase: str, layer: str) -> None:
        self.marks.append((phase, layer, self._now()))

    def end(self) -> list[tuple[str, str, float]]:
        """The marks, with seconds since the start."""
        (_, _, first), *marks = self.marks
        if not self.cuda:
            return [(phase, layer, when - first) for phase, layer, when in marks]
        torch.cuda.synchronize()
        return [(phase, layer, first.elapsed_time(when) * 1e-3) for phase, layer, when in marks]

    def _now(self) -> Any:
        if not self.cuda:
            return time.perf_counter()
        # On the current stream of the hook, which is the stream of the layer's work.
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event


def _owners(model: torch.nn.Module) -> dict[torch.nn.Parameter, str]:
    """Each parameter that requires a gradient, with its module (the first one, if several share the parameter)."""
    owners: dict[torch.nn.Parameter, str] = {}
    for name, module in model.named_modules():
        for parameter in module.parameters(recurse=False):
            if parameter.requires_grad:
                owners.setdefault(parameter, name or _MODEL)
    return owners


@contextmanager
def _hooks(model: torch.nn.Module, owners: dict[torch.nn.Parameter, str]) -> Iterator[_Record]:
    record = _Record()

    def forward(layer: str) -> Callable[..., None]:
        return lambda *_: record.mark("forward", layer)

    def backward(layer: str) -> Callable[..., None]:
        return lambda _: record.mark("backward", layer)

    names = set(owners.values())
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if (name or _MODEL) in names:
                stack.callback(module.register_forward_hook(forward(name or _MODEL)).remove)
        for parameter, name in owners.items():
            handle = parameter.register_post_accumulate_grad_hook(backward(name))  # type: ignore[no-untyped-call]
            stack.callback(handle.remove)
        yield record


def _loss(output: Any, loss: Callable[[Any], torch.Tensor] | None) -> torch.Tensor:
    value = (
        loss(output) if loss else output.sum() if isinstance(output, torch.Tensor) else getattr(output, "loss", None)
    )
    if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.requires_grad:
        raise ValueError(
            f"ringroad: cannot compute gradients: an output of type {type(output).__name__} gives the loss {value!r}; "
            "pass loss=..., a function that computes one number from the output"
        )
    return value


def _layers(runs: list[list[tuple[str, str, float]]], owners: dict[torch.nn.Parameter, str]) -> tuple[Layer, ...]:
    """The layers, with medians over the runs of forward seconds and of the time at which the last gradient is
    complete."""
    forward: dict[str, list[float]] = {}
    complete: dict[str, list[float]] = {}
    for marks in runs:
        clock, taken, done = 0.0, dict.fromkeys([*owners.values(), _REST], 0.0), {}
        for phase, layer, when in marks:
            if phase == "forward":
                taken[layer] += when - clock
                clock = when
            else:
                done[layer] = when - clock  # a layer's last gradient counts
        for table, values in ((forward, taken), (complete, done)):
            for layer, seconds in values.items():
                table.setdefault(layer, []).append(seconds)
    ready = {layer: median(times) for layer, times in complete.items()}
    bytes = dict.fromkeys(ready, 0)
    for parameter, layer in owners.items():
        if layer in bytes:
            bytes[layer] += parameter.numel() * parameter.element_size()
    passed = {layer: median(times) for layer, times in forward.items()}
    passed[_REST] += sum(seconds for layer, seconds in passed.items() if layer not in ready)
    order = sorted(ready, key=lambda layer: (layer == _REST, ready[layer]))
    layers, before = [], 0.0
    for layer in order:
        layers.append(Layer(layer, bytes[layer], passed[layer], max(0.0, ready[layer] - before)))
        before = max(before, ready[layer])
    return tuple(reversed(layers))


def _batch(inputs: tuple[Any, ...], options: dict[str, Any]) -> int:
    tensors = [value for value in (*inputs, *options.values()) if isinstance(value, torch.Tensor) and value.dim()]
    return max(1, tensors[0].shape[0]) if tensors else 1
