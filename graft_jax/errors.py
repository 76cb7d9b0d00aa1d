"""The one exception a user is meant to read, and how a script ends with it.

Every message says what is wrong, where (file, record), and how to mend it.
"""

import sys
from collections.abc import Callable


class GraftError(ValueError):
    """Bad input: a file, a record, a flag or a request; says what, where and how to mend."""


def run_cli(main: Callable[[], int | None]) -> None:
    """Runs a script's `main` and exits: 0 or what it returns, 2 for bad input, 130 for Ctrl-C."""
    try:
        code = main() or 0
    except GraftError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)
