"""The classes of what calls return, for annotations and `isinstance`; programs do not make them."""

from ringroad._discovery import DiscoveredLink, Discovery
from ringroad._grids.cart import Cart
from ringroad._grids.halo import Halo
from ringroad._grids.neighbours import Graph
from ringroad._messages import Message
from ringroad._replicas import ReplicaCheck, ReplicaDifference
from ringroad.start.elastic import ElasticGroup

__all__ = [
    "Cart",
    "DiscoveredLink",
    "Discovery",
    "ElasticGroup",
    "Graph",
    "Halo",
    "Message",
    "ReplicaCheck",
    "ReplicaDifference",
]
__dir__ = __all__.copy
