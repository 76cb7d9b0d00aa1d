"""From a plan to a request in words and one subtask a step. Knows the wordings, not the splits.

A request is built in three moves: which steps are asked for and which are only implied by how a
thing is named; which of the asked ones share a sentence; and in which order and tone they are told.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from string import Formatter

from data_prep import quickstart_phrases as phrases
from data_prep.quickstart_catalog import linking
from data_prep.quickstart_plans import Steps
from graft_jax.catalog.catalog import Catalog

# Chances that shape a request.
_ASIDE_BEFORE = 0.25
_ASIDE_AFTER = 0.2
_NEST_SOURCE = 0.45
_NEST_OTHER = 0.15
_IMPLY = 0.5
_PRONOUN = 0.6
_TAIL = 0.15


@dataclass(frozen=True)
class _Step:
    tool: str
    flows: str  # the type that the next step takes, or "" for a tool without outputs
    wording: phrases.Wording
    slots: dict[str, str]


# A clause: the steps it covers, the last of them as its verb.
_Clause = list[_Step]


def write_request(catalog: Catalog, plan: Steps, rng: random.Random) -> tuple[str, tuple[str, ...]]:
    """(query, subtasks) for a plan; the same values stand in both, the phrasings are drawn anew."""
    values = _Values(rng)
    steps = _steps(catalog, plan, values)
    query = _with_detail(_tell(steps, rng), steps, values, rng)
    return query, tuple(_subtask(steps, k, rng) for k in range(len(steps)))


class _Values:
    """Draws slot values, no value twice in a request."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._used: set[str] = set()

    def draw(self, slot: str, choices: tuple[str, ...] | None = None) -> str:
        options = choices or phrases.VALUES[slot]
        value = self._rng.choice([option for option in options if option not in self._used])
        self._used.add(value)
        return value

    def fill(self, templates: tuple[str, ...], plan: Steps) -> dict[str, str]:
        """A value for each slot that occurs in any of the templates of one of the plan's steps."""
        return {
            slot: self.draw(slot, _pictures(plan) if slot == "picture" else None)
            for slot in _slots(templates)
        }

    def format(self, remark: str) -> str:
        """A remark with values that no step has."""
        return remark.format(**self.fill((remark,), ()))


@cache
def _slots(templates: tuple[str, ...]) -> list[str]:
    """The slots for values; sorted, for a set's order differs from one process to the next."""
    slots = {name for text in templates for _, name, _, _ in Formatter().parse(text) if name}
    return sorted(slots - {"it"})


def _pictures(plan: Steps) -> tuple[str, ...]:
    """What a photo may show, so that what is done with it makes sense."""
    if "receipt_total" in plan:
        return phrases.RECEIPTS
    if "image_text" in plan and "event_create" in plan:
        return phrases.ANNOUNCEMENTS
    if "image_text" in plan:
        return phrases.LETTERING + phrases.RECEIPTS
    return phrases.SCENES + phrases.LETTERING + phrases.RECEIPTS


def _steps(catalog: Catalog, plan: Steps, values: _Values) -> list[_Step]:
    tools = [catalog.tools[catalog.index[name]] for name in plan]
    steps = []
    for k, tool in enumerate(tools):
        if k + 1 < len(tools):
            (flows,) = linking(tool, tools[k + 1])
        else:
            # Where a plan ends nobody takes the output; its first one names the result.
            flows = next(iter((tool.outputs or {}).get("properties", {})), "")
        wording = phrases.WORDINGS[tool.name, flows]
        slots = values.fill(wording.do + wording.noun + wording.ref, plan)
        steps.append(_Step(tool.name, flows, wording, slots))
    return steps


def _tell(steps: list[_Step], rng: random.Random) -> str:
    """The request proper, in one of several manners."""
    manners: list[tuple[Callable[[list[_Step], random.Random], str], float]] = [
        (_in_order, 0.5),
        (_listed, 0.1),
        (_goal_first, 0.25),
    ]
    if steps[-1].wording.noun:
        manners.append((_result_first, 0.15))
    if len(steps) <= 3 and all(step.wording.noun for step in steps[:-1]):
        manners.append((_all_in_one, 0.25))
    manner = rng.choices([m for m, _ in manners], weights=[w for _, w in manners])[0]
    return manner(steps, rng)


def _in_order(steps: list[_Step], rng: random.Random) -> str:
    """One sentence after the other, each asking for one to three things."""
    sentences = _sentences(_clauses(steps, rng), rng)
    told = []
    for i, texts in enumerate(sentences):
        last = 0 < i == len(sentences) - 1
        frames = phrases.CLOSERS if last else phrases.FOLLOWERS if i else phrases.OPENERS
        told.append(_capital(rng.choice(frames).format(a=_join(texts, rng))))
    return " ".join(told)


def _listed(steps: list[_Step], rng: random.Random) -> str:
    """A numbered list, or items between semicolons."""
    clauses = _clauses(steps, rng)
    texts = [
        _say(clause, _back(before, rng) if before else "", rng)
        for before, clause in zip([None, *clauses], clauses, strict=False)
    ]
    if len(texts) == 1:
        return _capital(rng.choice(phrases.OPENERS).format(a=texts[0]))
    if rng.random() < 0.5:
        frame = rng.choice(phrases.NUMBERED)
        items = [frame.format(n=n, a=_capital(text)) for n, text in enumerate(texts, start=1)]
        return " ".join(f"{item}." for item in items)
    return _capital(rng.choice(phrases.LISTS).format(items="; ".join(texts)))


def _goal_first(steps: list[_Step], rng: random.Random) -> str:
    """The last step, then what has to be done before it."""
    goal = _say([steps[-1]], _back([steps[-2]], rng), rng)
    texts = [text for part in _sentences(_clauses(steps[:-1], rng), rng) for text in part]
    return _capital(rng.choice(phrases.GOALS).format(goal=goal, steps=_join(texts, rng)))


def _result_first(steps: list[_Step], rng: random.Random) -> str:
    """The last result, then the steps before it."""
    result = _name(steps[-1], _back([steps[-2]], rng), rng)
    texts = [text for part in _sentences(_clauses(steps[:-1], rng), rng) for text in part]
    return _capital(rng.choice(phrases.RESULTS).format(result=result, steps=_join(texts, rng)))


def _all_in_one(steps: list[_Step], rng: random.Random) -> str:
    """A single clause: every step but the last is implied by how its result is named."""
    if steps[-1].wording.noun and rng.random() < 0.5:
        named = ""
        for step, after in zip(steps, [*steps[1:], None], strict=True):
            named = _implied_name(step, after, named, rng)
        return rng.choice(phrases.WANTED).format(result=named)
    return _capital(rng.choice(phrases.OPENERS).format(a=_say(steps, "", rng)))


def _clauses(steps: list[_Step], rng: random.Random) -> list[_Clause]:
    """Cuts the steps into clauses: a step that is only implied stays with the one after it."""
    clauses: list[_Clause] = [[]]
    for k, step in enumerate(steps):
        clauses[-1].append(step)
        if k + 1 == len(steps):
            break
        if (step.tool, steps[k + 1].tool) in phrases.IMPLIED:
            chance = _IMPLY
        else:
            chance = _NEST_OTHER if k else _NEST_SOURCE
        if not step.wording.noun or len(clauses[-1]) > 2 or rng.random() >= chance:
            clauses.append([])
    return clauses


def _sentences(clauses: list[_Clause], rng: random.Random) -> list[list[str]]:
    """Clause texts by sentence. `it` reaches back within a sentence, a noun across sentences."""
    sentences: list[list[str]] = []
    room = 0
    for k, clause in enumerate(clauses):
        new = room == 0
        if new:
            room = rng.choice((1, 2, 2, 3))
            sentences.append([])
        room -= 1
        it = ""
        if k:
            pronoun = rng.random() < (_PRONOUN / 3 if new else _PRONOUN)
            it = _pronoun(clauses[k - 1], rng) if pronoun else _back(clauses[k - 1], rng)
        sentences[-1].append(_say(clause, it, rng))
    return sentences


def _say(clause: _Clause, it: str, rng: random.Random) -> str:
    """The verb phrase of a clause whose first step works on `it`."""
    for step, after in pairwise(clause):
        it = _implied_name(step, after, it, rng)
    last = clause[-1]
    return rng.choice(last.wording.do).format(it=it, **last.slots)


def _implied_name(step: _Step, after: _Step | None, it: str, rng: random.Random) -> str:
    """A name for a step's result; where the step after forces this one, its input may stand in."""
    if after and it and (step.tool, after.tool) in phrases.IMPLIED and rng.random() < _IMPLY:
        return it
    return _name(step, it, rng)


def _name(step: _Step, it: str, rng: random.Random) -> str:
    return rng.choice(step.wording.noun).format(it=it, **step.slots)


def _back(clause: _Clause, rng: random.Random) -> str:
    last = clause[-1]
    return rng.choice(last.wording.ref).format(**last.slots)


def _pronoun(clause: _Clause, rng: random.Random) -> str:
    last = clause[-1]
    if last.tool in _AMBIGUOUS_IT and last.flows in _AMBIGUOUS_IT[last.tool]:
        return _back(clause, rng)
    return rng.choice(phrases.PRONOUNS.get(last.flows, phrases.DEFAULT_PRONOUNS))


# After these a pronoun could as well stand for the thing that was looked up.
_AMBIGUOUS_IT = {
    "mailbox_search": ("contact",),
    "calendar_search": ("contact", "place"),
    "ticket_lookup": ("contact", "text"),
    "contact_lookup": ("place",),
}


def _join(texts: list[str], rng: random.Random) -> str:
    """Clauses as one phrase; beyond three, the first ones stand before commas."""
    if len(texts) == 1:
        return texts[0]
    if len(texts) == 2:
        return rng.choice(phrases.PAIRS).format(a=texts[0], b=texts[1])
    head = ", ".join(texts[:-2])
    return rng.choice(phrases.TRIPLES).format(a=head, b=texts[-2], c=texts[-1])


def _with_detail(text: str, steps: list[_Step], values: _Values, rng: random.Random) -> str:
    """The request with, sometimes, a reason at its end or remarks around it: no further step."""
    if rng.random() < _TAIL:
        text = text[:-1] + values.format(rng.choice(phrases.TAILS)) + text[-1]
    types = {step.flows for step in steps}
    fitting = [remark for kind, remark in phrases.ASIDES if not kind or kind not in types]
    before, after = rng.sample(fitting, 2)
    if rng.random() < _ASIDE_BEFORE:
        text = f"{values.format(before)} {text}"
    if rng.random() < _ASIDE_AFTER:
        text = f"{text} {values.format(after)}"
    return text


def _subtask(steps: list[_Step], k: int, rng: random.Random) -> str:
    step = steps[k]
    it = rng.choice(phrases.TYPE_NOUNS[steps[k - 1].flows]) if k else ""
    return _capital(rng.choice(step.wording.do).format(it=it, **step.slots))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
