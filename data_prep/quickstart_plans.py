"""Which plans the quickstart asks for, and which of them only its test split may show.

Plans are walks over the tool graph from tools that need nothing but words. Knows no wording.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from data_prep.quickstart_catalog import FLOWING_TYPES, semantic_types
from graft_jax.catalog.catalog import Catalog
from graft_jax.errors import GraftError

Steps = tuple[str, ...]

# Share of requests with so many steps.
LENGTH_SHARES = {2: 0.22, 3: 0.32, 4: 0.25, 5: 0.14, 6: 0.07}
# Every edge of a plan that is held out stands in at least so many plans of the training split.
EDGE_SUPPORT = 2
# So many walks without a plan that is new: a length has no more of them.
_TRIES = 1000

_DIGESTS = frozenset({"mail_digest", "document_digest", "text_digest"})
_TRANSLATIONS = frozenset({"document_translate", "text_translate"})
# Legal by type, but nobody would ask for the second in a request that has had the first.
_POINTLESS = frozenset(
    {
        ("text_to_speech", "audio_transcribe"),
        ("text_to_speech", "audio_cleanup"),
        ("table_chart", "image_text"),
        ("table_chart", "image_enhance"),
        ("table_chart", "receipt_total"),
        ("weather_report", "text_digest"),
        ("weather_report", "ticket_create"),
        ("weather_report", "document_sign"),
        ("photo_search", "document_translate"),
        ("table_chart", "document_translate"),
        ("weather_report", "event_create"),
        ("image_caption", "text_digest"),
        ("image_caption", "event_create"),
        ("image_caption", "ticket_create"),
        ("ticket_lookup", "ticket_create"),
        ("document_create", "document_digest"),
        ("document_create", "document_tables"),
        ("document_sign", "document_digest"),
        ("document_sign", "document_translate"),
        ("document_sign", "document_tables"),
        ("event_create", "event_move"),
        ("meeting_schedule", "event_move"),
    }
)


@dataclass(frozen=True)
class PlanSplit:
    """Distinct plans: those of training, and those that only validation or only test holds."""

    train: tuple[Steps, ...]
    validation_unseen: tuple[Steps, ...]
    test_unseen: tuple[Steps, ...]


def split_plans(catalog: Catalog, train_examples: int, rng: random.Random) -> PlanSplit:
    """Draws up to three distinct plans for four training examples, and holds some out.

    Raises:
      GraftError: so few examples that nothing can be held out.
    """
    pool = _draw_pool(catalog, 3 * train_examples // 4, rng)
    support = Counter(edge for plan in pool for edge in set(pairwise(plan)))
    held: dict[str, list[Steps]] = {"test": [], "validation": []}
    for length in LENGTH_SHARES:
        plans = [plan for plan in pool if len(plan) == length]
        for split, share in (("test", 6), ("validation", 12)):
            quota = max(1, len(plans) // share)
            taken: list[Steps] = []
            for plan in plans:
                if len(taken) == quota:
                    break
                edges = set(pairwise(plan))
                if all(support[edge] > EDGE_SUPPORT for edge in edges):
                    taken.append(plan)
                    support.subtract(edges)
            if not taken:
                raise GraftError(
                    f"{train_examples} training examples are too few to hold out plans of {length} "
                    f"steps for {split}; ask for more with --train"
                )
            plans = [plan for plan in plans if plan not in taken]
            held[split] += taken
    kept = set(pool) - set(held["test"]) - set(held["validation"])
    return PlanSplit(
        tuple(plan for plan in pool if plan in kept), tuple(held["validation"]), tuple(held["test"])
    )


def lengths(count: int) -> list[int]:
    """The plan lengths of `count` requests: LENGTH_SHARES by largest remainder."""
    exact = {length: share * count for length, share in LENGTH_SHARES.items()}
    whole = {length: int(value) for length, value in exact.items()}
    by_remainder = sorted(exact, key=lambda length: whole[length] - exact[length])
    for length in by_remainder[: count - sum(whole.values())]:
        whole[length] += 1
    return [length for length, number in whole.items() for _ in range(number)]


def assign(plans: Sequence[Steps], count: int, rng: random.Random) -> list[Steps]:
    """`count` plans with the lengths of `lengths`: each plan once, as far as its length's number
    goes, then again those that hold the tools used least."""
    uses: Counter[str] = Counter()
    chosen: list[Steps] = []
    wanted = Counter(lengths(count))
    for length, number in wanted.items():
        same = [plan for plan in plans if len(plan) == length]
        once = rng.sample(same, min(number, len(same)))
        chosen += once
        uses.update(tool for plan in once for tool in plan)
        wanted[length] -= len(once)
    for length, number in wanted.items():
        same = [plan for plan in plans if len(plan) == length]
        for _ in range(number):
            weights = [1 / (1 + min(uses[tool] for tool in plan)) ** 2 for plan in same]
            (plan,) = rng.choices(same, weights)
            chosen.append(plan)
            uses.update(plan)
    rng.shuffle(chosen)
    return chosen


def sources(catalog: Catalog) -> list[str]:
    """The tools that need nothing but words from the user."""
    flowing = frozenset(FLOWING_TYPES)
    return [tool.name for tool in catalog.tools if not semantic_types(tool.parameters) & flowing]


def is_sensible(plan: Sequence[str]) -> bool:
    """No tool twice, nothing pointless, and not two tools of a kind that is needed once at most."""
    return (
        len(set(plan)) == len(plan)
        and not any(pair in _POINTLESS for pair in combinations(plan, 2))
        and all(len(kind.intersection(plan)) < 2 for kind in (_DIGESTS, _TRANSLATIONS))
    )


def _draw_pool(catalog: Catalog, count: int, rng: random.Random) -> list[Steps]:
    """Up to `count` distinct plans, fewer where the graph has no more of a length; rare tools
    are preferred, so that all occur about equally often."""
    starts = sources(catalog)
    uses: Counter[str] = Counter()
    pool: dict[Steps, None] = {}
    for length, number in Counter(lengths(count)).items():
        found = misses = 0
        while found < number and misses < _TRIES:
            plan = _walk(catalog, starts, length, uses, rng)
            if plan is None or plan in pool:
                misses += 1
                continue
            pool[plan] = None
            uses.update(plan)
            found, misses = found + 1, 0
    return list(pool)


def _walk(
    catalog: Catalog, starts: Sequence[str], length: int, uses: Counter[str], rng: random.Random
) -> Steps | None:
    """A sensible plan of `length` steps, or None where the walk ran into a dead end."""
    plan: Steps = (_pick(starts, uses, rng),)
    while len(plan) < length:
        options = [
            name
            for name in catalog.graph.successors(plan[-1])
            if is_sensible((*plan, name))
            and (len(plan) + 1 == length or catalog.graph.out_degree(name) > 0)
        ]
        if not options:
            return None
        plan = (*plan, _pick(options, uses, rng))
    return plan


def _pick(names: Sequence[str], uses: Counter[str], rng: random.Random) -> str:
    return rng.choices(names, weights=[1 / (1 + uses[name]) ** 2 for name in names])[0]
