"""Pickles for processes that run the same ringroad: functions of notebooks go by value, ringroad's types by name."""

import io
from typing import Any

import cloudpickle  # type: ignore[import-untyped]


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, obj: Any) -> Any:
        # cloudpickle takes types for local ones if nobody has imported their module, such as those of the laboratory.
        if isinstance(obj, type) and obj.__module__.partition(".")[0] == "ringroad":
            return NotImplemented
        return super().reducer_override(obj)


def pickled(value: Any) -> bytes:
    """The value's pickle, for `pickle.loads`."""
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()
