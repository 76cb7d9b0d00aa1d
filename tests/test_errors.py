"""How a script ends: what a user did, what the system refuses, and what was a fault of ours."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from graft_jax.errors import GraftError, run_cli


@pytest.fixture(autouse=True)
def _same_signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def ended(main: Callable[[], int | None]) -> int:
    with pytest.raises(SystemExit) as stop:
        run_cli(main)
    assert isinstance(stop.value.code, int)
    return stop.value.code


def raising(error: BaseException) -> Callable[[], int]:
    def main() -> int:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (GraftError("a.json: damaged; fetch it again"), 2, "error: a.json: damaged; fetch it"),
        (FileExistsError(errno.EEXIST, "File exists", "run"), 2, "error: run: File exists; check"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "error: No space left on device; c"),
        (OSError("odd"), 2, "error: odd; check path, space and rights"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory\nmore"), 2, "--positions-at-once"),
        (ValueError("RESOURCE_EXHAUSTED: a/0 [os_error_code='28']"), 2, "check path, space and"),
        (Exception("No space left (os error 28)"), 2, "error: No space left (os error 28); chec"),
        (MemoryError(), 2, "--<stage>.batch-size"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
    ],
)
def test_what_a_user_can_mend_is_said_without_a_traceback(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(raising(error)) == code
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == bool(said)


@pytest.mark.parametrize("error", [RuntimeError("a bug"), ValueError("a bug")])
def test_a_fault_of_the_program_stays_a_traceback(error: Exception) -> None:
    with pytest.raises(type(error), match="a bug"):
        run_cli(raising(error))


def test_sigterm_runs_clean_up_and_ends_as_ctrl_c_does() -> None:
    cleaned = []

    def main() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            cleaned.append(True)

    assert ended(main) == 130
    assert cleaned


TALK = "from graft_jax.errors import run_cli; run_cli(lambda: print('x' * {}))"


@pytest.mark.parametrize("amount", [1, 100_000])
def test_a_full_disk_behind_the_output_is_said(amount: int) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", TALK.format(amount)], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 2
    assert done.stderr == b"error: No space left on device; check path, space and rights\n"


def test_a_reader_that_has_gone_ends_it_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", TALK.format(1)]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_strict_output_takes_a_name_that_has_no_encoding() -> None:
    command = [sys.executable, "-c", TALK.replace("'x' * {}", r"'\udcff \u00e9'")]
    strict = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run(command, env=strict, capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"\\udcff \\xe9\n")
