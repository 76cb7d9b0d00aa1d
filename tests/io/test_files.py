"""Files and folders appear whole under their final name, or not at all."""

import errno
import hashlib
import io
import re
import sys
import threading
from pathlib import Path

import pytest

from graft_jax.errors import GraftError
from graft_jax.io import files


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    files.write_json(path, {"é": 1})
    with pytest.raises(ZeroDivisionError), files.written(path) as temporary:
        temporary.write_text("half" * (1 // 0))
    assert files.read_json(path) == {"é": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_written_files_are_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    files.write_text(tmp_path / "ours", "x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_folder_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ZeroDivisionError), files.written_folder(out) as folder:
        (folder / "half").write_text("x" * (1 // 0))
    assert list(tmp_path.iterdir()) == []
    with files.written_folder(out) as folder:
        (folder / "whole").write_text("x")
        assert not out.exists()
    assert [p.name for p in out.iterdir()] == ["whole"]


def test_what_a_killed_process_left_does_not_get_into_the_next_folder(tmp_path: Path) -> None:
    left = tmp_path / ".out.partial"
    left.mkdir()
    (left / "stale").write_text("x")
    with files.written_folder(tmp_path / "out") as folder:
        (folder / "new").write_text("x")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["new"]


def test_an_existing_folder_is_never_overwritten(tmp_path: Path) -> None:
    with pytest.raises(GraftError, match="already exists"), files.written_folder(tmp_path):
        pass


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left"), OSError(errno.EACCES, "No", ".a.x.partial")]
)
def test_an_error_of_the_system_names_the_file_itself(tmp_path: Path, error: OSError) -> None:
    path = tmp_path / "a"
    with pytest.raises(OSError, match=f"'{path}'"), files.written(path):
        raise error


def test_an_error_that_names_another_file_or_has_words_alone_stays(tmp_path: Path) -> None:
    for error in (OSError(errno.ENOENT, "No such file", "source"), OSError("disk full")):
        before = str(error)
        with pytest.raises(OSError, match=re.escape(before)), files.written(tmp_path / "a"):
            raise error


def test_a_target_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    files.try_target(tmp_path / "new" / "a")
    files.try_target(tmp_path / "file")
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "folder", "new"]
    with pytest.raises(GraftError, match="folder: is a folder"):
        files.try_target(tmp_path / "folder")
    with pytest.raises(OSError, match="file"):
        files.try_target(tmp_path / "file" / "a")


def test_line_ends_and_lone_surrogates_survive(tmp_path: Path) -> None:
    files.write_text(tmp_path / "a", "x\r\ny\n")
    assert files.read_text(tmp_path / "a") == "x\r\ny\n"
    files.write_json(tmp_path / "a.json", {"é": "\ud83d"})
    assert files.read_json(tmp_path / "a.json") == {"é": "\ud83d"}


@pytest.mark.parametrize(
    "content", [None, b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5000], ids=lambda c: str(c)[:9]
)
def test_unreadable_json_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GraftError, match=r"a\.json"):
        files.read_json(path)


def test_file_hash_is_sha256(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert files.file_hash(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()


def test_a_folder_is_held_by_one_at_a_time_and_waiting_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, said, done = tmp_path / "run", threading.Event(), []

    class Terminal(io.StringIO):
        def write(self, text: str) -> int:
            if f"{folder}: another process is at work here" in text:
                said.set()
            return super().write(text)

    def second() -> None:
        with files.locked(folder):
            done.append("second")

    monkeypatch.setattr(sys, "stderr", Terminal())
    other = threading.Thread(target=second)
    with files.locked(folder):
        other.start()
        assert said.wait(60)
        done.append("first")
    other.join(60)
    assert done == ["first", "second"]
