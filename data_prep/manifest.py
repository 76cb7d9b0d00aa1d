"""What a converter returns, and the manifest that says how a data folder came about."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data_prep.records import Tally, source_hash
from graft_jax._version import __version__
from graft_jax.catalog.catalog import Catalog
from graft_jax.data.examples import Example
from graft_jax.evaluation.leaks import audit

_SHOWN_IDS = 10  # ids stored per reason: enough to look at, few enough to read


@dataclasses.dataclass(frozen=True)
class Table3:
    """A row of the paper's Table 3."""

    tools: int
    edges: int
    train: int
    validation: int
    test: int
    max_length: int


@dataclasses.dataclass(frozen=True)
class Converted:
    """A data set in the project's contract, and what is worth telling about it.

    `raw_subtasks`: example id -> subtasks as published, one a tool. `extra`: further files to
    write, name -> JSON value. `files`: the source files (or folders of them) that were read.
    """

    dataset: str
    catalog: Catalog
    splits: Mapping[str, Sequence[Example]]
    tally: Tally
    rows_read: int
    files: Sequence[Path]
    published_at: str
    licence: str
    filter: str
    split: str
    seed: int
    paper: Table3 | None = None
    raw_subtasks: Mapping[str, Sequence[str]] | None = None
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def build(converted: Converted) -> dict[str, Any]:
    """The manifest, ready for JSON; the same source, filter and seed give the same manifest."""
    splits = converted.splits
    examples = [example for members in splits.values() for example in members]
    ours = Table3(
        tools=len(converted.catalog.tools),
        edges=len(converted.catalog.edges),
        train=len(splits["train"]),
        validation=len(splits["validation"]),
        test=len(splits["test"]),
        max_length=max(len(example.tools) for example in examples),
    )
    return {
        "format": 1,
        "made_by": f"graft-jax {__version__}",
        "dataset": converted.dataset,
        "published_at": converted.published_at,
        "licence": converted.licence,
        "source_files": {path.name: source_hash(path) for path in converted.files},
        "filter": converted.filter,
        "split": converted.split,
        "seed": converted.seed,
        "rows_read": converted.rows_read,
        "rows_kept": len(examples),
        "left_out": _reasons(converted.tally.left_out),
        "kept_though_odd": _reasons(converted.tally.kept),
        "table_3": {
            "ours": dataclasses.asdict(ours),
            "paper": dataclasses.asdict(converted.paper) if converted.paper else None,
        },
        "plan_lengths": {name: _lengths(members) for name, members in splits.items()},
        "aligned_examples": {
            name: sum(example.aligned for example in members) for name, members in splits.items()
        },
        "leak_audit": audit(splits, converted.catalog, converted.raw_subtasks),
    }


def _reasons(groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {
        reason: {"count": len(ids), "first_ids": list(ids[:_SHOWN_IDS])}
        for reason, ids in sorted(groups.items())
    }


def _lengths(examples: Sequence[Example]) -> dict[str, int]:
    counts = Counter(len(example.tools) for example in examples)
    return {str(length): counts[length] for length in sorted(counts)}


def summary(manifest: Mapping[str, Any]) -> str:
    """The manifest as a page of text."""
    lines = [
        f"{manifest['dataset']}: {manifest['rows_read']} rows read, {manifest['rows_kept']} kept",
        f"  filter: {manifest['filter']}",
        f"  split: {manifest['split']}, seed {manifest['seed']}",
        f"  licence of the data: {manifest['licence']}",
    ]
    for key, title in (("left_out", "left out"), ("kept_though_odd", "kept though odd")):
        lines.append(f"  {title}:" if manifest[key] else f"  {title}: none")
        lines += [f"    {entry['count']:>6}  {why}" for why, entry in manifest[key].items()]
    ours, paper = manifest["table_3"]["ours"], manifest["table_3"]["paper"]
    lines.append(f"  {'':<12}{'ours':>8}{'paper, Table 3':>18}")
    for key, value in ours.items():
        beside = paper[key] if paper else "-"
        lines.append(f"  {key.replace('_', ' '):<12}{value:>8}{beside:>18}")
    lines.append("  plans by length:")
    for name, lengths in manifest["plan_lengths"].items():
        counts = "  ".join(f"{length}: {count}" for length, count in lengths.items())
        aligned = manifest["aligned_examples"][name]
        lines.append(f"    {name:<12}{counts}  (with a subtask a tool: {aligned})")
    lines.append("  leak audit:")
    for key, value in manifest["leak_audit"].items():
        lines.append(f"    {key.replace('_', ' '):<30}{_shown(value)}")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if value is None:
        return "not known"
    if "share" not in value:
        return ", ".join(f"{pair}: {count}" for pair, count in value.items())
    share = "-" if value["share"] is None else f"{value['share']:.1%}"
    return f"{value['count']} of {value['of']} ({share})"
