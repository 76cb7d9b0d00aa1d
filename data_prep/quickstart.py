"""Writes the quickstart's data: a catalog of the project's own and seeded requests over it.

    python data_prep/quickstart.py --out data/quickstart

The folder holds what every prepared data set holds (catalog.json, train, validation and test.jsonl,
manifest.json). It is a pure function of the seed and the sizes: the same bytes each run.
"""

import random
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import tyro

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from data_prep.quickstart_catalog import quickstart_catalog
from data_prep.quickstart_plans import LENGTH_SHARES, Steps, assign, split_plans
from data_prep.quickstart_requests import write_request
from graft_jax.catalog.catalog import Catalog, load_catalog, save_catalog
from graft_jax.data.examples import CATALOG_FILE, Example, data_hash, load_splits, save_examples
from graft_jax.errors import GraftError, run_cli
from graft_jax.io.files import locked, read_json, write_json, written_folder

MANIFEST_FILE = "manifest.json"
# Half of validation and test has plans that training never shows.
UNSEEN_SHARE = 0.5
# Of a split. Far more would take long and then run out of new requests.
MOST_EXAMPLES = 100_000
_TRIES = 100


def make_splits(
    seed: int, train: int, validation: int, test: int
) -> tuple[Catalog, dict[str, list[Example]]]:
    """The catalog and the examples by split; no query stands twice.

    Of validation and test one half has plans (exact tool sequences) of the training split, the
    other plans that no other split has; all of their edges stand in training plans.

    Raises:
      GraftError: a size is too small for that, or so large that requests would repeat.
    """
    least = 2 * len(LENGTH_SHARES)
    for flag, size in (("--train", train), ("--validation", validation), ("--test", test)):
        if not least <= size <= MOST_EXAMPLES:
            raise GraftError(
                f"{flag} {size} is too {'small' if size < least else 'large'}; ask for {least} to "
                f"{MOST_EXAMPLES}"
            )
    rng = random.Random(seed)
    catalog = quickstart_catalog()
    plans = split_plans(catalog, train, rng)
    trained = assign(plans.train, train, rng)
    queries: set[str] = set()

    def held(name: str, size: int, unseen: Sequence[Steps]) -> list[Example]:
        new = round(size * UNSEEN_SHARE)
        drawn = assign(plans.train, size - new, rng) + assign(unseen, new, rng)
        rng.shuffle(drawn)
        return _examples(catalog, name, drawn, queries, rng)

    splits = {"train": _examples(catalog, "train", trained, queries, rng)}
    splits["validation"] = held("validation", validation, plans.validation_unseen)
    splits["test"] = held("test", test, plans.test_unseen)
    return catalog, splits


def manifest(
    catalog: Catalog, splits: dict[str, list[Example]], settings: dict[str, int]
) -> dict[str, Any]:
    """What the folder holds, in numbers; `unseen`: requests with a plan that training lacks."""
    train = splits["train"]
    train_plans = {example.tools for example in train}
    train_edges = {edge for example in train for edge in pairwise(example.tools)}
    return {
        "dataset": "quickstart",
        "made_by": "data_prep/quickstart.py",
        "settings": settings,
        "graph_rule": "a->b when an output of a has the semantic type of an input of b, and a is "
        "not b",
        "tools": len(catalog),
        "edges": len(catalog.edges),
        "mean_out_degree": round(len(catalog.edges) / len(catalog), 3),
        "edges_in_training_plans": len(train_edges),
        "splits": {
            name: _counts(examples, train_plans, train_edges) for name, examples in splits.items()
        },
    }


def _counts(
    examples: Sequence[Example], train_plans: set[Steps], train_edges: set[tuple[str, str]]
) -> dict[str, Any]:
    steps = Counter(len(example.tools) for example in examples)
    words = sorted(len(example.query.split()) for example in examples)
    edges = {edge for example in examples for edge in pairwise(example.tools)}
    return {
        "examples": len(examples),
        "plans": len({example.tools for example in examples}),
        "steps": {str(length): steps[length] for length in sorted(steps)},
        "unseen": sum(example.tools not in train_plans for example in examples),
        "edges_not_in_training_plans": len(edges - train_edges),
        "words_mean": round(sum(words) / len(words), 1),
        "words_p95": words[int(0.95 * (len(words) - 1))],
        "words_max": words[-1],
    }


def write_quickstart(out: Path, settings: dict[str, int]) -> dict[str, Any]:
    """Writes the folder, whole or not at all, and returns its manifest.

    A folder that already holds exactly this is left as it is.

    Raises:
      GraftError: as `make_splits`; `out` exists and holds something else.
      OSError: `out` cannot be written; found before anything is made.
    """
    with locked(out.parent):
        if out.exists():
            return _there(out, settings)
        with written_folder(out) as folder:
            catalog, splits = make_splits(**settings)
            made = manifest(catalog, splits, settings)
            save_catalog(catalog, folder / CATALOG_FILE)
            for name, examples in splits.items():
                save_examples(examples, folder / f"{name}.jsonl")
            made["data_hash"] = data_hash(folder)
            write_json(folder / MANIFEST_FILE, made)
    return made


def _there(out: Path, settings: dict[str, int]) -> dict[str, Any]:
    """The manifest of a folder that holds what `settings` make; anything else is refused."""
    if _settings(out) == settings:
        catalog, splits = make_splits(**settings)
        if _holds(out, catalog, splits):
            return {**manifest(catalog, splits, settings), "data_hash": data_hash(out)}
    raise GraftError(f"{out}: already exists and holds something else; name another with --out")


def _settings(out: Path) -> Any:
    try:
        found = read_json(out / MANIFEST_FILE)
    except GraftError:
        return None
    return found.get("settings") if isinstance(found, dict) else None


def _holds(out: Path, catalog: Catalog, splits: dict[str, list[Example]]) -> bool:
    try:
        found = load_catalog(out / CATALOG_FILE)
        return found == catalog and load_splits(out, catalog) == splits
    except GraftError:
        return False


def _examples(
    catalog: Catalog, split: str, plans: Sequence[Steps], queries: set[str], rng: random.Random
) -> list[Example]:
    examples = []
    for number, plan in enumerate(plans):
        for _ in range(_TRIES):
            query, subtasks = write_request(catalog, plan, rng)
            if query.casefold() not in queries:
                break
        else:
            raise GraftError(
                f"{split} {number}: no new request in {_TRIES} tries for {' -> '.join(plan)}; "
                "ask for fewer examples"
            )
        queries.add(query.casefold())
        examples.append(Example(f"{split}-{number:04d}", query, subtasks, plan))
    return examples


def main(
    out: Path, seed: int = 0, train: int = 3000, validation: int = 150, test: int = 200
) -> None:
    """Write the quickstart's catalog, requests and manifest.

    Args:
      out: the folder to make.
      seed: fixes every byte of it.
      train: number of training examples.
      validation: number of validation examples.
      test: number of test examples.
    """
    settings = {"seed": seed, "train": train, "validation": validation, "test": test}
    made = write_quickstart(out, settings)
    print(f"{out}: {made['tools']} tools, {made['edges']} edges")
    for name, counts in made["splits"].items():
        print(
            f"  {name}: {counts['examples']} requests, {counts['plans']} plans, "
            f"{counts['unseen']} with a plan that training never shows"
        )


if __name__ == "__main__":
    run_cli(lambda: tyro.cli(main))
