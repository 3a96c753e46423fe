"""What the Python threads of this process do, for who asks how its job stands."""

import json
import sys
import threading
from types import FrameType

_DEEPEST = 100
"""Frames that are shown of a thread, from the innermost one on."""


def stacks() -> str:
    """The stacks of all threads but this one, the main thread first, as JSON: the name of each thread, and its frames
    as (file, line, function), the innermost first.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    found = {thread: frame for thread, frame in sys._current_frames().items() if thread != threading.get_ident()}
    threads = sorted(found, key=lambda thread: thread != main)
    return json.dumps([(names.get(thread, f"thread {thread}"), _frames(found[thread])) for thread in threads])


def _frames(frame: FrameType | None) -> list[tuple[str, int, str]]:
    frames: list[tuple[str, int, str]] = []
    while frame is not None and len(frames) < _DEEPEST:
        frames.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return frames
