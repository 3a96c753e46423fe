"""The signal that RINGROAD_SIGNAL names makes a rank write how its job stands. By default there is none: others use
signals, and Python's table shows no handlers in C, such as faulthandler's."""

import signal
import sys
import threading

from ringroad._native import Config


def answer(config: Config) -> None:
    """Makes the signal that the settings name, if any, write to standard error how the job stands, unless the program
    handles it itself.

    Python runs handlers in the main thread, even while a call of ringroad waits, but not within other functions in C.
    """
    if config.signal is None or threading.current_thread() is not threading.main_thread():
        return
    number = signal.Signals[f"SIG{config.signal}"]
    if signal.getsignal(number) == signal.SIG_DFL:
        signal.signal(number, _tell)


def _tell(_number: int, _frame: object) -> None:
    # Others may take a second to answer, and this rank has calls to go on with.
    threading.Thread(target=_write, name="ringroad-signal", daemon=True).start()


def _write() -> None:
    from ringroad._status import asking
    from ringroad._status import text as words

    text = "".join(f"ringroad: {line}\n" for line in words.lines(asking.of_this_process()))
    if sys.stderr is not None:  # as 2>&- leaves it
        sys.stderr.write(text)
        sys.stderr.flush()
