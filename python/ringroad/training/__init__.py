"""Predicts data-parallel training on a network: computing, communication, and how much of it stays exposed.

    from ringroad import training

    training.compare("resnet50", ["ring:16", "torus:4x4", "hypercube:4"])          # a shipped model
    training.iterate(training.Model.load("mine.toml"), "torus:4x4", bucket="layer").plot()

Gradients are sent as soon as the backward pass has made them (wait-free backpropagation: Zhang et al., Poseidon,
USENIX ATC 2017), so only the communication after the end of the backward pass costs time.
"""

from ringroad.training.iteration import Allreduce, Comparison, Iteration, compare, iterate
from ringroad.training.model import SHIPPED, Layer, Model
from ringroad.training.network import Line, Network

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
]
