"""Files and folders appear whole under their final name, or not at all."""

import hashlib
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


@pytest.mark.parametrize("content", [None, b"{", b"\xff\xfe"])
def test_unreadable_json_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GraftError, match=r"a\.json"):
        files.read_json(path)


def test_file_hash_is_sha256(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert files.file_hash(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()
