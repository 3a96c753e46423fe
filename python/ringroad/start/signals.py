"""SIGUSR1 lets a rank write how its job stands."""

import signal
import sys
import threading


def answer_usr1() -> None:
    """Writes how the job stands on standard error when SIGUSR1 comes, unless the program handles that signal itself.

    Python runs handlers in the main thread: also within a call of ringroad that waits, but not within other functions
    in C.
    """
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL:
        signal.signal(signal.SIGUSR1, _tell)


def _tell(_number: int, _frame: object) -> None:
    # Others may take a second to answer, and this rank has calls to go on with.
    threading.Thread(target=_write, name="ringroad-status", daemon=True).start()


def _write() -> None:
    from ringroad._status import asking
    from ringroad._status import text as words

    text = "".join(f"ringroad: {line}\n" for line in words.lines(asking.of_this_process()))
    sys.stderr.write(text)
    sys.stderr.flush()
