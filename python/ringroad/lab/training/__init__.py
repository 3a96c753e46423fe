"""Predicts data-parallel training on a network: computing, communication, and how much of it stays exposed.

    from ringroad.lab import training

    training.compare("resnet50", ["ring:16", "torus:4x4", "hypercube:4"])          # a shipped model
    training.iterate(training.Model.load("mine.toml"), "torus:4x4", bucket="layer").plot()

Gradients are sent as soon as the backward pass has made them (wait-free backpropagation: Zhang et al., Poseidon,
USENIX ATC 2017), so only the communication after the end of the backward pass costs time.
"""

from typing import TYPE_CHECKING, Any

from ringroad.lab.training.iteration import Allreduce, Comparison, Iteration, compare, iterate
from ringroad.lab.training.model import SHIPPED, Layer, Model
from ringroad.lab.training.network import Line, Network

if TYPE_CHECKING:
    from ringroad.lab.training.profile import profile_layers

__all__ = [
    "SHIPPED",
    "Allreduce",
    "Comparison",
    "Iteration",
    "Layer",
    "Line",
    "Model",
    "Network",
    "compare",
    "iterate",
    "profile_layers",
]
__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    """Imports `profile_layers` on first use, since it needs torch."""
    if name != "profile_layers":
        raise AttributeError(f"module 'ringroad.lab.training' has no attribute {name!r}")
    from ringroad.lab.training.profile import profile_layers

    return profile_layers
