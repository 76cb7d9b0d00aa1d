"""The one exception a user is meant to read, and how a script ends with it.

Every message says what is wrong, where (file, record), and how to mend it.
"""

import io
import os
import signal
import sys
from collections.abc import Callable


class GraftError(ValueError):
    """Bad input: a file, a record, a flag or a request; says what, where and how to mend."""


def run_cli(main: Callable[[], int | None]) -> None:
    """Runs a script's `main` and exits with 0 or what it returns.

    2 for bad input, for a file that the system refuses and for memory that is used up; 130 for
    Ctrl-C and SIGTERM; 141 where whoever reads the output has gone. A fault of the program itself
    stays a traceback.
    """
    # SIGTERM ends as Ctrl-C does: clean-up runs. Only C code in a single long call delays it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may hold what no encoding has
    try:
        code = main() or 0
        print(end="", flush=True)  # a full disk shows here, not when it is too late to say so
    except BrokenPipeError:
        code = 128 + signal.SIGPIPE
    except Exception as error:
        said = _mendable(error)
        if said is None:
            raise
        print(f"error: {said}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 128 + signal.SIGINT
    finally:
        _let_go_of_output()
    sys.exit(code)


def _mendable(error: Exception) -> str | None:
    """What to say of an error that a user can mend; None for a fault of the program itself."""
    if isinstance(error, GraftError):
        return str(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}; check path, space and rights"
    # Libraries in other languages tell these apart by words, not by classes.
    text = str(error).split("\n")[0]
    if "os error" in text or "os_error" in text:
        return f"{text}; check path, space and rights"
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text:
        return (
            f"memory is short ({text or 'no more to be had'}); in training give a smaller "
            "--positions-at-once or --<stage>.batch-size"
        )
    return None


def _let_go_of_output() -> None:
    """What an output that fails has left in its buffer would fail once more at exit."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
