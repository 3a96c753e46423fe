"""A worker process of `ringroad.local`: `python -m ringroad.start.worker FD RANK SIZE`.

It reads commands from the socket `FD` and answers each with (result, traceback or None, pickled exception or None). At
end of file the parent has closed the cluster or died. This process then ends, even while a function runs.
"""

import contextlib
import os
import pickle
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from ringroad._native import Communicator, FileStore, TcpStore, Topology
from ringroad._support.pickles import pickled

_GRACE_SECONDS = 5.0


def main() -> None:
    fd, rank, size = map(int, sys.argv[1:])
    os.set_inheritable(fd, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this process
    pipe = Connection(fd)
    commands: SimpleQueue[tuple[str, Any] | None] = SimpleQueue()
    threading.Thread(target=_read, args=(pipe, commands), daemon=True).start()
    worker = _Worker(rank, size)
    while (command := commands.get()) is not None:
        reply = worker.serve(*command)
        try:
            pipe.send(reply)
        except OSError:
            break  # the parent is gone
    worker.leave("the cluster is closed")


def _read(pipe: Connection, commands: "SimpleQueue[tuple[str, Any] | None]") -> None:
    while True:
        try:
            commands.put(pipe.recv())
        except (EOFError, OSError):
            # The kernel's timer works whatever the main thread is doing.
            signal.setitimer(signal.ITIMER_REAL, _GRACE_SECONDS)
            commands.put(None)
            return


class _Worker:
    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self.communicator: Communicator | None = None

    def serve(self, command: str, content: Any) -> tuple[Any, str | None, bytes | None]:
        """Performs one command and returns the reply."""
        try:
            if command == "connect":
                self.connect(*content)
                return None, None, None
            return self.run(content), None, None
        except BaseException as error:  # SystemExit too: only the parent ends a worker
            frames = error.__traceback__
            while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
                frames = frames.tb_next  # show the user's function only
            text = "".join(traceback.format_exception(error.with_traceback(frames)))
            self.leave(f"a function failed on rank {self.rank}: {type(error).__name__}: {error}")
            return None, text, _if_whole(error)
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(AttributeError, OSError, ValueError):  # there is none, or it is closed
                    stream.flush()

    def connect(
        self,
        store: str | tuple[str, int],
        topology: Topology | str | int | None,
        algorithm: str | None,
        timeout: float | None,
    ) -> None:
        """Makes a communicator; the ranks meet in the directory `store`, or at this host and port of rank 0."""
        self.leave("the cluster makes new communicators")
        self.communicator = Communicator(
            FileStore(store) if isinstance(store, str) else TcpStore(*store, self.rank, timeout=timeout),
            self.rank,
            self.size,
            timeout=timeout,
            topology=topology,
            algorithm=algorithm,
            name="local",
        )

    def run(self, content: bytes) -> bytes:
        """Calls the function and returns its pickled result."""
        function, args, kwargs = pickle.loads(content)
        return pickled(function(self.communicator, *args, **kwargs))

    def leave(self, reason: str) -> None:
        """Aborts and closes the communicator, so that no other rank waits for this one."""
        communicator, self.communicator = self.communicator, None
        if communicator is not None:
            communicator.abort(reason)
            communicator.close()


def _if_whole(error: BaseException) -> bytes | None:
    """The error's pickle, if it can be read."""
    try:
        content = pickled(error)
        pickle.loads(content)
        return content
    except Exception:
        return None


if __name__ == "__main__":
    main()
