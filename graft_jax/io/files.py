"""Files that are never seen half-written, and their hashes. Knows nothing of what is in them.

A file or folder is written beside its final place and renamed into it: whoever is killed in between
leaves the old state, or none, under the final name.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graft_jax.errors import GraftError

_PARTIAL = ".partial"


@contextlib.contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Gives an OSError that names no file, or only a temporary one, the name of `path`."""
    try:
        yield
    except OSError as error:
        nameless = error.filename is None or str(error.filename).endswith(_PARTIAL)
        if nameless and error.errno is not None:  # one without a number would lose its words
            error.filename = str(path)
        raise


@contextlib.contextmanager
def written(path: str | Path) -> Iterator[Path]:
    """Yields a temporary path; renames it to `path` on success, removes it on failure."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_PARTIAL)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            _settle(temporary)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def try_target(path: str | Path) -> None:
    """Refuses before long work what `written` would refuse after it; makes the file's folder.

    Raises:
      GraftError: a folder has the file's name, or nothing may be written beside it.
      OSError: the file's folder cannot be made.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise GraftError(f"{path}: is a folder, and a file is to be written there; move it away")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise GraftError(f"{path}: its folder cannot be written to; check its rights")


def write_text(path: str | Path, text: str) -> None:
    """Writes a UTF-8 file, whole or not at all; line ends stay as they are."""
    with written(path) as temporary:
        # A lone surrogate, which JSON lets through, stands as JSON escapes it.
        temporary.write_bytes(text.encode("utf-8", "backslashreplace"))


def write_json(path: str | Path, value: Any) -> None:
    """Writes readable JSON (indented, non-ASCII kept), whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_text(path: str | Path) -> str:
    """Reads a UTF-8 file; line ends stay as they are.

    Raises:
      GraftError: the file is missing, cannot be read or is not UTF-8.
    """
    try:
        return Path(path).read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise GraftError(f"{path}: no such file; check the folder's path") from None
    except OSError as error:
        raise GraftError(f"{path}: cannot be read ({error.strerror}); check its path") from None
    except UnicodeDecodeError as error:
        raise GraftError(f"{path}: is not UTF-8 at byte {error.start}; fetch it again") from None


def read_json(path: str | Path) -> Any:
    """Reads a JSON file.

    Raises:
      GraftError: the file is missing, cannot be read or is not JSON.
    """
    return parse_json(read_text(path), f"{path}")


def parse_json(text: str, where: str) -> Any:
    """The value of a JSON text that stands at `where`.

    Raises:
      GraftError: it is not JSON, or nests too deeply.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GraftError(f"{where}: is not JSON ({error}); mend or replace it") from None


@contextlib.contextmanager
def written_folder(path: str | Path) -> Iterator[Path]:
    """Yields an empty folder; renames it to `path` on success, removes it on failure.

    What a killed process left behind is removed by the next one; those that may run at the same
    time hold `locked(path.parent)` around this.

    Raises:
      GraftError: `path` already exists: nothing is ever overwritten here.
    """
    path = Path(path)
    if path.exists():
        raise GraftError(f"{path}: already exists; delete it or choose another folder")
    temporary = path.parent / f".{path.name}{_PARTIAL}"
    shutil.rmtree(temporary, ignore_errors=True)
    with naming(path):
        temporary.mkdir(parents=True)
        try:
            yield temporary
            for file in temporary.rglob("*"):
                if file.is_file():
                    _settle(file)
            os.rename(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def locked(folder: str | Path) -> Iterator[None]:
    """Holds `folder` for this process; waits, and says so, for another that holds it.

    Let go of when the process is killed.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{folder}: another process is at work here; waiting for it", file=sys.stderr)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def file_hash(path: str | Path) -> str:
    """SHA-256 of a file's content, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _settle(path: Path) -> None:
    """On the disk before it gets its name, and as readable as the user's umask says."""
    # Temporary files, and what safetensors writes, are readable by their owner only. A file with a
    # second name is a link to a file of the user's and stays as it is.
    if path.stat().st_nlink == 1:
        path.chmod(0o666 & ~_umask())
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
