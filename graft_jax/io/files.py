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
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graft_jax.errors import GraftError


@contextlib.contextmanager
def written(path: str | Path) -> Iterator[Path]:
    """Yields a temporary path; renames it to `path` on success, removes it on failure."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _settle(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Writes a UTF-8 file, whole or not at all."""
    with written(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Writes readable JSON (indented, non-ASCII kept), whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: str | Path) -> Any:
    """Reads a JSON file.

    Raises:
      GraftError: the file is missing or is not JSON.
    """
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise GraftError(f"{path}: no such file; check the folder's path") from None
    except (OSError, ValueError) as error:
        raise GraftError(f"{path}: cannot be read as JSON ({error}); fetch it again") from error


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
    temporary = path.parent / f".{path.name}.partial"
    shutil.rmtree(temporary, ignore_errors=True)
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
    """Holds `folder` for this process; waits for another that holds it. Let go of when killed."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
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
