"""Models for training: layers with the bytes of their gradients and their seconds of computing."""

import json
import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringroad import _oracle as oracle
from ringroad._support.files import read_text
from ringroad._support.text import about_bytes, check_class, items, number, seconds_text, whole
from ringroad.lab.training.architectures import ARCHITECTURES, table

SHIPPED = list(ARCHITECTURES)
"""The models that come with ringroad, by name."""

_FLOATS = [name for name in oracle.SUPPORTED["avg"] if "complex" not in name]
_ITEM_BYTES = {name: oracle.dtype_of(name).itemsize for name in _FLOATS}
_MODEL_KEYS = {"name", "source", "batch", "dtype", "throughput", "layers"}
_LAYER_KEYS = {"name", "parameters", "bytes", "flops", "forward", "backward"}
_GROUP_KEYS = {"name", "repeat", "layers"}


@dataclass(frozen=True)
class Layer:
    """What is computed in one piece. Its gradient is complete when its backward pass ends.

    Attributes:
        name: The layer's name.
        bytes: The length of its gradient in bytes; 0 if it has none.
        forward: Seconds of its forward pass.
        backward: Seconds of its backward pass.
    """

    name: str
    bytes: int
    forward: float
    backward: float


@dataclass(frozen=True)
class Model:
    """Layers in the order of the forward pass; the backward pass takes them from the last to the first.

    As TOML::

        name = "mine"
        batch = 64                      # samples of a rank; 1 unless stated
        dtype = "float32"               # of gradients; float64, float32 (unless stated), float16 or bfloat16
        throughput = 20e12              # floating-point operations per second; for layers that state flops
        layers = [
            { name = "embedding", parameters = 1000000, forward = 1e-4, backward = 2e-4 },
            { name = "blocks", repeat = 12, layers = [{ name = "mlp", parameters = 4722432, flops = 9437184 }] },
        ]

    A layer states `parameters` (of the model's dtype) or `bytes`, or neither if it has no gradient; and either the
    seconds of `forward` and `backward` for the batch, or `flops`, the operations of a forward pass of one sample (a
    multiplication and its addition are two). The backward pass then takes twice as long as the forward pass, since
    it makes the gradients of both inputs and weights.

    Attributes:
        name: The model's name.
        layers: A `Layer` for each.
        batch: The samples of a rank.
        source: Where the numbers are from.
    """

    name: str
    layers: tuple[Layer, ...]
    batch: int = 1
    source: str = ""

    def __post_init__(self) -> None:
        for layer in items("layers", self.layers):
            check_class("a layer", layer, Layer)

    @classmethod
    def load(cls, model: str | Path, *, batch: int | None = None, throughput: float | None = None) -> "Model":
        """Reads a model from a file, or a shipped one by its name.

        With `batch` or `throughput`, layers that state both flops and seconds go by the flops.

        Args:
            model: The path of a TOML file, or one of `SHIPPED`.
            batch: Samples of a rank, instead of the file's.
            throughput: Floating-point operations per second, instead of the file's. If infinite, computing takes no
                time.

        Returns:
            The model.

        Raises:
            ValueError: The file is invalid; the message names file, layer and key. Or an argument is invalid.
            OSError: The file cannot be read.

        Example:
            >>> from ringroad.lab.training import Model
            >>> model = Model.load("resnet50")
            >>> model.batch, len(model.layers) > 50
            (64, True)
        """
        check_class("model", model, str, os.PathLike)
        if batch is not None and whole("batch", batch) < 1:
            raise ValueError(f"batch must be 1 sample or more, not {batch}")
        if throughput is not None and not number("throughput", throughput) > 0:
            raise ValueError(f"throughput must be above 0 operations per second, not {throughput}")
        if str(model) in SHIPPED:
            return _Reader(str(model), table(str(model)), batch, throughput).model()
        if not (Path(model).exists() or Path(model).suffix):
            raise ValueError(f"{str(model)!r} is neither a file nor a shipped model; those are {', '.join(SHIPPED)}")
        try:
            data = tomllib.loads(read_text(model))
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{model}: {error}") from None
        except RecursionError:
            raise ValueError(f"{model} is nested too deeply") from None
        return _Reader(str(model), data, batch, throughput).model()

    def save(self, path: str | Path) -> None:
        """Writes the model as TOML, with bytes and seconds.

        Args:
            path: The file to write.
        """
        head = [f"name = {_quoted(self.name)}", f"source = {_quoted(self.source)}" * bool(self.source)]
        rows = [
            f"    {{ name = {_quoted(layer.name)}, bytes = {layer.bytes}, forward = {float(layer.forward)!r}, "
            f"backward = {float(layer.backward)!r} }},"
            for layer in self.layers
        ]
        lines = [*filter(None, head), f"batch = {self.batch}", "layers = [", *rows, "]", ""]
        Path(path).write_text("\n".join(lines))

    @property
    def bytes(self) -> int:
        """The bytes of all gradients."""
        return sum(layer.bytes for layer in self.layers)

    @property
    def forward(self) -> float:
        """The seconds of the forward pass."""
        return math.fsum(layer.forward for layer in self.layers)

    @property
    def backward(self) -> float:
        """The seconds of the backward pass."""
        return math.fsum(layer.backward for layer in self.layers)

    def gradients(self) -> Iterator[tuple[Layer, float]]:
        """Returns the layers that have a gradient, in the order in which the backward pass makes them.

        Returns:
            Tuples of a layer and the seconds from the beginning of the iteration at which its gradient is complete.
        """
        clock = self.forward
        for layer in reversed(self.layers):
            clock += layer.backward
            if layer.bytes:
                yield layer, clock

    def __repr__(self) -> str:
        return (
            f"<Model {self.name}: {len(self.layers)} layers, gradients of {about_bytes(self.bytes)}, computes for "
            f"{seconds_text(self.forward + self.backward)}>"
        )


def _quoted(text: str) -> str:
    """A text as a TOML string: TOML has JSON's escapes, but also requires one for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


class _Reader:
    """Reads one file. Error messages start with `where`: the file and the layer."""

    def __init__(self, file: str, data: dict[str, Any], batch: int | None, throughput: float | None) -> None:
        self.file, self.data = file, data
        # Seconds that were measured for another batch or throughput do not apply.
        self.calculated = batch is not None or throughput is not None
        self.asked_batch, self.asked_throughput = batch, throughput

    def model(self) -> Model:
        data, file = self.data, self.file
        _known(data, _MODEL_KEYS, file)
        self.batch = self.asked_batch or _whole(data, "batch", file, 1, least=1)
        self.throughput = self.asked_throughput or _number(data, "throughput", file)
        if self.throughput == 0:
            raise ValueError(f"{file}: throughput is 0; give operations per second")
        dtype = _text(data, "dtype", file, "float32")
        if dtype not in _ITEM_BYTES:
            raise ValueError(f"{file}: dtype {dtype!r} is unknown; expected one of: {', '.join(_ITEM_BYTES)}")
        self.item_bytes = _ITEM_BYTES[dtype]
        layers = tuple(self._layers(data, file, ""))
        names = [layer.name for layer in layers]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"{file}: there are two layers {twice!r}; give them different names")
        return Model(_text(data, "name", file, Path(file).stem), layers, self.batch, _text(data, "source", file, ""))

    def _layers(self, table: Mapping[str, Any], where: str, prefix: str) -> Iterator[Layer]:
        entries = table.get("layers")
        if not isinstance(entries, list) or not entries:
            raise ValueError(f"{where}: layers must be a list of at least one table {{ name = ..., ... }}")
        for index, entry in enumerate(entries, 1):
            if not isinstance(entry, dict):
                raise ValueError(f"{where}: layer {index} is {entry!r}; write a table {{ name = ..., ... }}")
            name = _text(entry, "name", f"{where}, layer {index}")
            here = f"{where}, layer {name!r}"
            if "layers" not in entry:
                yield self._layer(entry, prefix + name, here)
                continue
            _known(entry, _GROUP_KEYS, here)
            repeat = _whole(entry, "repeat", here, 1, least=1)
            for copy in range(repeat):
                inner = f"{name}.{copy}" if "repeat" in entry else name
                yield from self._layers(entry, here, f"{prefix}{inner}.")

    def _layer(self, entry: Mapping[str, Any], name: str, where: str) -> Layer:
        _known(entry, _LAYER_KEYS, where)
        if "parameters" in entry and "bytes" in entry:
            raise ValueError(f"{where}: states parameters and bytes; keep one")
        parameters = _whole(entry, "parameters", where, 0) * self.item_bytes
        forward, backward = self._seconds(entry, where)
        return Layer(name, _whole(entry, "bytes", where, parameters), forward, backward)

    def _seconds(self, entry: Mapping[str, Any], where: str) -> tuple[float, float]:
        """The seconds of the forward and the backward pass."""
        flops, forward, backward = (_number(entry, key, where) for key in ("flops", "forward", "backward"))
        if (forward is None) != (backward is None):
            raise ValueError(f"{where}: states one of forward and backward; state both, in seconds")
        if forward is not None and backward is not None and not (self.calculated and flops is not None):
            if self.calculated:
                raise ValueError(
                    f"{where}: states measured seconds and no flops, so batch and throughput cannot change; add flops"
                )
            return forward, backward
        if flops is None:
            raise ValueError(f"{where}: states no time; add forward and backward (seconds), or flops")
        if self.throughput is None:
            raise ValueError(f"{where}: flops need a throughput; add it to the file, or pass one (--throughput)")
        seconds = flops * self.batch / self.throughput
        return seconds, 2 * seconds


def _known(table: Mapping[str, Any], keys: set[str], where: str) -> None:
    unknown = sorted(set(table) - keys)
    if unknown:
        raise ValueError(f"{where}: key {unknown[0]!r} is unknown; known keys are {', '.join(sorted(keys))}")


def _text(table: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    value = table.get(key, default)
    if not isinstance(value, str) or (default is None and not value):
        raise ValueError(f"{where}: key {key!r} must be a string" + (f", not {value!r}" if key in table else ""))
    return value


def _whole(table: Mapping[str, Any], key: str, where: str, default: int, least: int = 0) -> int:
    value = table.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{where}: key {key!r} must be a whole number of {least} or more, not {value!r}")
    return value


def _number(table: Mapping[str, Any], key: str, where: str) -> float | None:
    if key not in table:
        return None
    value = table[key]
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError(f"{where}: key {key!r} must be a number of 0 or more, not {value!r}")
    return float(value)
