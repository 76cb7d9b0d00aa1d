"""Train, validation and test from a list of examples: official test ids, or a seeded draw."""

import hashlib
from collections.abc import Collection, Iterable, Sequence

from graft_jax.data.examples import Example
from graft_jax.errors import GraftError


def draw(ids: Iterable[str], count: int, seed: int) -> set[str]:
    """`count` ids, drawn by the order of SHA-256("seed:id").

    A pure function of the set of ids: neither their order nor the Python version matters.
    """
    ranked = sorted(ids, key=lambda i: (hashlib.sha256(f"{seed}:{i}".encode()).digest(), i))
    return set(ranked[:count])


def split_examples(
    examples: Sequence[Example], test_ids: Collection[str] | None, held_out: int, seed: int
) -> dict[str, list[Example]]:
    """Splits examples, each in exactly one, in their given order.

    Args:
      examples: with distinct ids.
      test_ids: the official test ids; None draws `held_out` of them.
      held_out: examples to draw for validation (and for test).
      seed: of the draws.

    Raises:
      GraftError: a split would be empty.
    """
    ids = [example.id for example in examples]
    test = draw(ids, held_out, seed) if test_ids is None else set(ids) & set(test_ids)
    rest = [i for i in ids if i not in test]
    validation = draw(rest, held_out, seed)
    part = dict.fromkeys(test, "test") | dict.fromkeys(validation, "validation")
    splits: dict[str, list[Example]] = {"train": [], "validation": [], "test": []}
    for example in examples:
        splits[part.get(example.id, "train")].append(example)
    empty = [name for name, members in splits.items() if not members]
    if empty:
        raise GraftError(
            f"the {empty[0]} split would be empty: {len(ids)} usable rows, {len(test)} of them "
            f"test, {held_out} to hold out for validation; give --held-out a smaller number or the "
            "source more rows"
        )
    return splits
