"""What a receive says of its message."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ringroad._native import PROC_NULL


@dataclass(frozen=True, repr=False)
class Message:
    """A message between two ranks, as its receiver sees it: what `probe` and `Work.message` return.

    Attributes:
        source: The rank that sent it; `ringroad.PROC_NULL` if the receive named nobody.
        tag: The tag that the sender gave it.
        count: The number of its elements; of records and other types that are moved as bytes, the number of bytes.
        dtype: The type of its elements.

    Example:
        >>> a, b = ringroad.Communicator.in_process(2)
        >>> a.send(np.arange(5.0), peer=1, tag=3)
        >>> message = b.probe(tag=ringroad.ANY)
        >>> message
        <Message of 5 float64 from rank 0 (tag 3)>
        >>> b.recv(np.empty(message.count, message.dtype), message.source, message.tag)
        array([0., 1., 2., 3., 4.])
    """

    source: int
    tag: int
    count: int
    dtype: np.dtype[Any]

    def __repr__(self) -> str:
        source = "nobody" if self.source == PROC_NULL else f"rank {self.source}"
        return f"<Message of {self.count} {self.dtype} from {source} (tag {self.tag})>"
