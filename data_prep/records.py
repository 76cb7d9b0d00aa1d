"""Reading published JSON files, and the tally of rows left out. Knows no data set."""

import gzip
import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from graft_jax.catalog.catalog import check_writable
from graft_jax.errors import GraftError


def read_text(path: Path) -> str:
    """The text of a UTF-8 file; one that ends in .gz is unpacked.

    Raises:
      GraftError: missing, unreadable, not UTF-8, or a damaged archive.
    """
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise GraftError(f"{path}: no such file; name the folder of the published files") from None
    except UnicodeDecodeError:
        raise GraftError(f"{path}: is not UTF-8; fetch the published file again") from None
    except (OSError, EOFError) as error:
        raise GraftError(f"{path}: cannot be read ({error}); fetch the file again") from None


def read_json(path: Path) -> Any:
    """The value of a JSON file.

    Raises:
      GraftError: as `read_text`, or the file is not JSON.
    """
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise GraftError(f"{path}: is not JSON ({error}); fetch the file again") from None


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSONL file, blank lines skipped.

    Raises:
      GraftError: as `read_text`; a line is not a JSON object, or has text that UTF-8 cannot write
        (named by number); there is no line.
    """
    rows = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise GraftError(
                f"{path}, line {number}: is not JSON ({error}); the file should hold one object a "
                "line: fetch it again"
            ) from None
        if not isinstance(row, dict):
            raise GraftError(f"{path}, line {number}: is not a JSON object; fetch the file again")
        check_writable(row, f"{path}, line {number}")
        rows.append(row)
    if not rows:
        raise GraftError(f"{path}: holds no row; fetch the file again")
    return rows


def source_hash(path: Path) -> dict[str, Any]:
    """`{"sha256", "bytes"}` of a file, or of a folder's files with their names, in name order."""
    if path.is_file():
        content = path.read_bytes()
        return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    digest, size = hashlib.sha256(), 0
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(path).as_posix()} {len(content)}\n".encode())
        digest.update(content)
        size += len(content)
    return {"sha256": digest.hexdigest(), "bytes": size}


class Tally:
    """Which rows were left out, and which were kept although odd, by reason; ids in order."""

    def __init__(self) -> None:
        self.left_out: dict[str, list[str]] = {}
        self.kept: dict[str, list[str]] = {}

    def leave_out(self, reason: str, identity: str) -> None:
        """Counts a row that does not become an example."""
        self.left_out.setdefault(reason, []).append(identity)

    def note(self, reason: str, identity: str) -> None:
        """Counts a row that becomes an example, and says what was odd about it."""
        self.kept.setdefault(reason, []).append(identity)

    def refuse_none_left(self, kept: Collection[Any], where: Path) -> None:
        """Raises GraftError with the reasons where no row is left."""
        if not kept:
            reasons = "; ".join(f"{len(ids)} {why}" for why, ids in self.left_out.items())
            raise GraftError(
                f"{where}: no row can be used ({reasons}); check that these are the published files"
            )
