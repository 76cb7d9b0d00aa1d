"""The command: a data folder whole or not at all."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from made_rows import row

from data_prep import prepare
from graft_jax.catalog.catalog import load_catalog
from graft_jax.data.examples import data_hash, load_splits
from graft_jax.errors import GraftError

FILES = ["catalog.json", "manifest.json", "test.jsonl", "train.jsonl", "validation.jsonl"]


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def run(folder, out, *more, dataset="ultratool"):
    options = ["--source", str(folder), "--out", str(out), "--held-out", "1"]
    prepare.main([dataset, *options, *more])


def test_the_folder_is_the_contract_and_the_manifest_tells_of_it(
    make_folder, good_rows, tmp_path, capsys
):
    dag = row("x", ("find_hotel", "book_hotel"), type="dag")
    out = tmp_path / "deep" / "data"
    run(make_folder([*good_rows, dag], ["1", "2"]), out)
    assert names(out) == FILES
    splits = load_splits(out, load_catalog(out / "catalog.json"))
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["table_3"]["ours"]["test"] == len(splits["test"]) == 2
    assert manifest["table_3"]["paper"]["edges"] == 611
    assert manifest["left_out"] == {"type dag, not chain": {"count": 1, "first_ids": ["x"]}}
    assert manifest["data_hash"] == data_hash(out)
    assert set(manifest["source_files"]) >= {"data.json", "split_ids.json"}
    assert sum(manifest["plan_lengths"]["test"].values()) == 2
    printed = capsys.readouterr().out
    for words in ("11 rows read, 10 kept", "type dag", "Table 3", "leak audit", "wrote"):
        assert words in printed
    assert names(out.parent) == ["data"]


def test_the_same_command_gives_the_same_bytes(make_folder, good_rows, tmp_path):
    folder = make_folder(good_rows)
    for name in ("one", "two"):
        run(folder, tmp_path / name)
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_failed_run_leaves_the_old_folder(make_folder, good_rows, tmp_path, monkeypatch):
    folder, out = make_folder(good_rows, ["1"]), tmp_path / "data"
    run(folder, out)
    before = data_hash(out)
    (folder / "data.json").write_text("{")
    with pytest.raises(GraftError, match="line 1"):
        run(folder, out)
    make_folder(good_rows, ["1", "2"])

    def full_disk(*args):
        raise OSError("no space left")

    monkeypatch.setattr(prepare, "save_examples", full_disk)
    with pytest.raises(GraftError, match="no space left"):
        run(folder, out)
    monkeypatch.undo()
    monkeypatch.setattr(Path, "rename", full_disk)
    with pytest.raises(GraftError, match="no space left"):
        run(folder, out)
    monkeypatch.undo()
    assert data_hash(out) == before
    assert names(tmp_path) == ["data", "published"]


def test_the_old_folder_comes_back_when_the_new_one_cannot_be_renamed(
    make_folder, good_rows, tmp_path, monkeypatch
):
    folder, out = make_folder(good_rows, ["1"]), tmp_path / "data"
    run(folder, out)
    before = data_hash(out)
    rename = Path.rename

    def only_old(path, target):
        if path.name.endswith(".partial"):
            raise OSError("refused")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", only_old)
    with pytest.raises(GraftError, match="refused"):
        run(folder, out)
    assert data_hash(out) == before
    assert names(tmp_path) == ["data", "published"]


def test_what_a_killed_run_left_is_cleared(make_folder, good_rows, tmp_path):
    folder, out = make_folder(good_rows, ["1"]), tmp_path / "data"
    (tmp_path / ".data.partial").mkdir()
    (tmp_path / ".data.partial" / "stale.jsonl").write_text("x")
    run(folder, out)
    assert names(out) == FILES
    assert names(tmp_path) == ["data", "published"]


def test_a_folder_that_is_no_data_folder_is_left_alone(make_folder, good_rows, tmp_path):
    folder = make_folder(good_rows, ["1"])
    before = names(folder)
    with pytest.raises(GraftError, match=r"no manifest\.json.*left alone"):
        run(folder, folder)
    assert names(folder) == before
    (tmp_path / "file").write_text("x")
    with pytest.raises(GraftError, match="is a file"):
        run(folder, tmp_path / "file")
    with pytest.raises(GraftError, match="nothing can be made in"):
        run(folder, tmp_path / "file" / "data")


def test_a_target_that_cannot_be_written_is_found_before_anything_is_fetched(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare.download, "fetch", lambda *_: pytest.fail("fetched"))
    (tmp_path / "file").write_text("x")
    with pytest.raises(GraftError, match="is a file"):
        prepare.main(["ultratool", "--out", str(tmp_path / "file")])


def test_two_at_once_leave_one_good_folder(make_folder, good_rows, tmp_path):
    folder, out = make_folder(good_rows), tmp_path / "data"
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: run(folder, out), range(2)))
    assert names(out) == FILES
    assert names(tmp_path) == ["data", "published"]


def test_options_that_do_not_fit_are_refused(make_folder, good_rows, tmp_path):
    folder, out = make_folder(good_rows), tmp_path / "data"
    with pytest.raises(GraftError, match="--filter paper is known for ultratool only"):
        run(folder, out, "--filter", "paper", dataset="taskbench")
    with pytest.raises(GraftError, match="--held-out 0"):
        run(folder, out, "--held-out", "0")
    with pytest.raises(GraftError, match="no such folder"):
        run(tmp_path / "absent", out)
    assert not out.exists()


def test_a_download_ends_as_a_data_folder(make_folder, good_rows, tmp_path, monkeypatch):
    made = make_folder(good_rows, ["1"])

    def fetched(published, folder, base_url):
        assert (published.name, base_url) == ("taskbench-multimedia", "http://there")
        folder.parent.mkdir()
        made.rename(folder)

    monkeypatch.setattr(prepare.download, "fetch", fetched)
    options = ["--domain", "multimedia", "--base-url", "http://there", "--held-out", "1"]
    options += ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "data")]
    prepare.main(["taskbench", *options])
    assert names(tmp_path / "data") == FILES


def test_the_script_runs_by_itself_and_ends_with_2_on_bad_input(make_folder, good_rows, tmp_path):
    script = str(Path(prepare.__file__))
    command = [sys.executable, script, "ultratool", "--held-out", "1"]
    command += ["--source", str(make_folder(good_rows, ["1"]))]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    options = {"env": environment, "cwd": Path(script).parent.parent, "text": True}
    good = subprocess.run(
        [*command, "--out", str(tmp_path / "data")], capture_output=True, check=False, **options
    )
    assert (good.returncode, good.stderr) == (0, "")
    bad = subprocess.run(
        [*command, "--out", str(tmp_path / "published")],
        capture_output=True,
        check=False,
        **options,
    )
    assert bad.returncode == 2
    assert bad.stderr.startswith("error: ")
    assert "Traceback" not in bad.stderr
