"""Converts between torch tensors and NumPy arrays that share memory, bfloat16 included."""

import numpy as np
import torch

from ringroad._oracle import Vector, dtype_of


def array_of(tensor: torch.Tensor) -> Vector:
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(dtype_of("bfloat16"))
    return np.asarray(tensor.numpy())


def tensor_of(array: Vector) -> torch.Tensor:
    if array.dtype == dtype_of("bfloat16"):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
