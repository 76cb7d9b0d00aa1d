"""Turns a published data set into the project's data folder.

    python data_prep/prepare.py ultratool --source DIR --out data/ultratool
    python data_prep/prepare.py ultratool --out data/ultratool            (downloads, checks hashes)

Writes catalog.json, train|validation|test.jsonl and manifest.json, all or nothing, and prints what
was read, left out and why.
"""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a script, not installed

from data_prep import download, mgtoolbench, taskbench, ultratool
from data_prep.manifest import Converted, build, summary
from graft_jax.catalog.catalog import load_catalog, save_catalog
from graft_jax.data.examples import CATALOG_FILE, data_hash, load_splits, save_examples
from graft_jax.errors import GraftError, run_cli
from graft_jax.io.files import locked

MANIFEST = "manifest.json"


def write_folder(converted: Converted, out: Path) -> dict[str, Any]:
    """Writes the data folder whole or not at all, and returns its manifest.

    It is built beside `out` and renamed. An existing `out` is replaced only then, and only if it is
    empty or holds a manifest, i.e. is a data folder.

    Raises:
      GraftError: as `check_target`, or `out` cannot be written.
    """
    out = out.resolve()
    manifest = build(converted)
    partial = out.with_name(f".{out.name}.partial")
    try:
        with locked(out.parent):
            check_target(out)
            try:
                _write(converted, manifest, partial)
                _replace(partial, out)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise GraftError(f"{out}: cannot be written ({error}); check space and rights") from None
    return manifest


def check_target(out: Path) -> None:
    """Refuses before any work what could not be written after it.

    Raises:
      GraftError: `out` is a file, a folder of something else, or nothing may be made beside it.
    """
    out = out.resolve()
    if out.exists() and not out.is_dir():
        raise GraftError(f"{out}: is a file; name a folder with --out")
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).exists():
        raise GraftError(
            f"{out}: holds files and no {MANIFEST}, so it is no data folder and is left alone; "
            "name another folder with --out"
        )
    above = next(folder for folder in out.parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise GraftError(f"{out}: nothing can be made in {above}; name a folder with --out")


def _write(converted: Converted, manifest: dict[str, Any], partial: Path) -> None:
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    save_catalog(converted.catalog, partial / CATALOG_FILE)
    for name, examples in converted.splits.items():
        save_examples(examples, partial / f"{name}.jsonl")
    load_splits(partial, load_catalog(partial / CATALOG_FILE, report=[]))  # it can be read back
    manifest["data_hash"] = data_hash(partial)
    for name, value in (*converted.extra.items(), (MANIFEST, manifest)):
        text = json.dumps(value, ensure_ascii=False, indent=1)
        (partial / name).write_text(text + "\n", encoding="utf-8")


def _replace(partial: Path, out: Path) -> None:
    """Renames `partial` to `out`; a folder cannot be renamed over a full one, so it steps aside."""
    previous = out.with_name(f".{out.name}.previous")
    shutil.rmtree(previous, ignore_errors=True)
    if out.exists():
        out.rename(previous)
    try:
        partial.rename(out)
    except BaseException:
        if previous.exists():
            previous.rename(out)
        raise
    shutil.rmtree(previous, ignore_errors=True)


def main(arguments: list[str] | None = None) -> None:
    """The command: see `--help`."""
    args = _parser().parse_args(arguments)
    if args.filter == "paper" and args.dataset != "ultratool":
        raise GraftError("--filter paper is known for ultratool only; leave it out")
    if args.held_out < 1:
        raise GraftError(f"--held-out {args.held_out}: must be at least 1")
    check_target(args.out)
    published = download.PUBLISHED[
        f"taskbench/{args.domain}" if args.dataset == "taskbench" else args.dataset
    ]
    source = args.source
    if source is None:
        source = args.cache / published.name
        download.fetch(published, source, args.base_url)
    if not source.is_dir():
        raise GraftError(f"{source}: no such folder; --source names the published files' folder")
    common = {
        "official": args.split == "official",
        "held_out": args.held_out,
        "seed": args.seed,
        "published_at": published.address,
    }
    if args.dataset == "ultratool":
        converted = ultratool.convert(source, filter=args.filter, **common)
    elif args.dataset == "taskbench":
        converted = taskbench.convert(source, **common)
    else:
        converted = mgtoolbench.convert(source, descriptions=args.descriptions, **common)
    manifest = write_folder(converted, args.out)
    print(summary(manifest))
    print(f"wrote {args.out}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset", choices=("ultratool", "taskbench", "mgtoolbench"))
    parser.add_argument("--out", type=Path, required=True, help="the data folder to write")
    parser.add_argument("--source", type=Path, help="folder of the published files; else download")
    parser.add_argument(
        "--split",
        choices=("official", "seeded"),
        default="official",
        help="test: the published ids, or a seeded draw (which mgtoolbench always has)",
    )
    parser.add_argument("--filter", choices=("all", "paper"), default="all", help="rows to keep")
    parser.add_argument("--seed", type=int, default=0, help="of the drawn splits")
    parser.add_argument("--held-out", type=int, default=500, help="rows of a drawn split")
    parser.add_argument(
        "--domain",
        choices=("huggingface", "multimedia", "dailylife"),
        default="huggingface",
        help="taskbench: which of its three to download",
    )
    parser.add_argument(
        "--descriptions",
        type=Path,
        help="mgtoolbench: ToolBench's API descriptions, a .jsonl or .jsonl.gz file with one tool "
        "a line, or its toolenv/tools folder",
    )
    parser.add_argument("--cache", type=Path, default=Path(".cache/published"))
    parser.add_argument("--base-url", default=download.BASE_URL, help="where to download from")
    return parser


if __name__ == "__main__":
    run_cli(main)
