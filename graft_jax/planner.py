"""Text in, plans out: the planner as a host object, and `plan`.

planner = graft_jax.load("runs/ultratool")
plan = graft_jax.plan(planner, "Cancel my 8 am alarm and move the daily one to 6:30")
plan.tools, plan.log_prob, plan.is_legal, plan.steps
"""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from graft_jax.catalog.catalog import Catalog, Tool
from graft_jax.catalog.graph import tool_bits
from graft_jax.catalog.names import text_of
from graft_jax.data.prompts import Prompts, templates
from graft_jax.decoding.decode import Decoded
from graft_jax.decoding.masks import Index, make_index
from graft_jax.decoding.requests import (
    Request,
    decode_prompts,
    decode_prompts_unconstrained,
    make_limits,
)
from graft_jax.errors import GraftError
from graft_jax.io.huggingface import load_base, read_spec
from graft_jax.io.planner_folder import PLANNER, TOKENIZER, load_planner_folder
from graft_jax.io.tokenizer import encode_text, ending_plans, entries, load_tokenizer
from graft_jax.models.adapter import Params
from graft_jax.models.lora import merge
from graft_jax.models.spec import ModelSpec
from graft_jax.models.tool_tokens import ToolRows, init_tool_rows
from graft_jax.shapes import is_whole

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Constrain = Literal["graph", "tools", "off"]
Dtype = Literal["bfloat16", "float32"]
Message = Mapping[str, Any]
Query = str | Sequence[Message]


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of a plan.

    probability: of this tool over all tools and end-of-plan, before any mask; runners_up: what else
    was allowed here, (tool or None for end-of-plan, probability), most probable first; edge: the
    pair (previous tool, this tool) where it is an edge of the graph, None for a first step or where
    it is none.
    """

    tool: str
    probability: float
    runners_up: tuple[tuple[str | None, float], ...]
    edge: tuple[str, str] | None


@dataclasses.dataclass(frozen=True)
class Plan:
    """An ordered tool chain for a request.

    log_prob: natural log of the whole plan's probability, its end included; is_legal: it has a
    tool, all of them exist, and every adjacent pair is an edge; end_probability: of stopping where
    it stops; truncated: the request was longer than the cut rule allows. Under constrain="off"
    `tools` may hold stretches of plain text where the model wrote words; they count as
    `non_tool_tokens`.
    """

    query: str
    tools: tuple[str, ...]
    log_prob: float
    is_legal: bool
    steps: tuple[Step, ...]
    end_probability: float
    truncated: bool
    prompt_tokens: int
    generated_tokens: int
    non_tool_tokens: int = 0

    @property
    def probability(self) -> float:
        """exp(log_prob)."""
        return math.exp(self.log_prob)

    def __str__(self) -> str:
        chain = " -> ".join(self.tools) or "(empty plan)"
        legal = "legal" if self.is_legal else "not legal"
        cut = ", request cut" if self.truncated else ""
        return f"{chain}  (probability {self.probability:.3f}, {legal}{cut})"

    def to_json(self) -> dict[str, Any]:
        """Plain values, for writing as JSON; the probability of a stretch of words is null."""
        text = json.dumps(dataclasses.asdict(self) | {"probability": self.probability})
        return json.loads(text, parse_constant=lambda _: None)


@dataclasses.dataclass(frozen=True)
class Planner:
    """A planner in memory. `params` and `index` are arrays, `spec` the only static; no state.

    rows: which tool stands in which row of the tool table, None where none does.
    """

    params: Params
    index: Index
    spec: ModelSpec
    catalog: Catalog
    rows: tuple[str | None, ...]
    tokenizer: "PreTrainedTokenizerBase"
    prompts: Prompts
    card: dict[str, Any]

    @property
    def row_of(self) -> dict[str, int]:
        """Tool name -> row."""
        return {name: row for row, name in enumerate(self.rows) if name is not None}


def load(
    folder: str | Path,
    backbone: str | Path | None = None,
    dtype: Dtype | None = None,
) -> Planner:
    """Loads a planner folder, LoRA merged into the base.

    `backbone` is the backbone's folder where it is not the one planner.json names; `dtype` of the
    weights is that of the training unless given.

    Raises:
      GraftError: the folder is no planner, a file is damaged, or the backbone is gone or another.
    """
    stored = load_planner_folder(folder, backbone)
    card = stored.card
    if card["prompts"] != templates():
        raise GraftError(
            f"{Path(folder) / PLANNER}: was trained with other prompt words; use the version of "
            f"graft-jax that wrote it ({card.get('version')})"
        )
    dtype = dtype or card["config"]["dtype"]
    if dtype not in get_args(Dtype):
        raise GraftError(f"dtype {dtype!r} is not one of {', '.join(get_args(Dtype))}")
    tokenizer = load_tokenizer(Path(folder) / TOKENIZER)
    spec = ending_plans(read_spec(stored.backbone), tokenizer)
    base = load_base(stored.backbone, spec, jnp.dtype(dtype))
    params = Params(
        base=jax.jit(merge)(base, stored.adapter.lora), lora=None, tools=stored.adapter.tools
    )
    size = card["capacity"]
    names: list[str | None] = [*stored.catalog.names]
    return Planner(
        params=params,
        index=make_index(stored.catalog, size),
        spec=spec,
        catalog=stored.catalog,
        rows=tuple(names + [None] * (size - len(names))),
        tokenizer=tokenizer,
        prompts=Prompts(tokenizer, spec.vocab_size, card["max_query_tokens"], spec.max_positions),
        card=card,
    )


def plan(
    planner: Planner,
    query: Query | Sequence[Query],
    *,
    constrain: Constrain = "graph",
    n_best: int | None = None,
    allow: Iterable[str] | None = None,
    deny: Iterable[str] = (),
    min_steps: int = 1,
    max_steps: int | None = None,
) -> Any:
    """Plans one request, or a list of them, greedily or by beam search.

    Args:
      planner: of `load`.
      query: a text, a list of chat messages (`{"role", "content"}`, the request is what the user
        said), or a list of either.
      constrain: "graph": after the first tool only successors of the tool before; "tools": any
        tool; "off": any token of the vocabulary, to see what the model says unasked.
      n_best: None for the greedy plan; a number for that many plans by beam search, best first.
      allow: tools that may be used (all, if None); deny: tools that may not.
      min_steps, max_steps: bounds of a plan's number of tools; `max_steps` is by default one more
        than the longest plan trained on.

    Returns:
      A `Plan`; with `n_best` a list of them (fewer where fewer exist); for a list of queries a list
      of these. Requests are cut to the planner's `max_query_tokens` (`Plan.truncated`).

    Raises:
      GraftError: a query that is empty or no text, an unknown tool, or bounds that no plan can
        meet.
    """
    several = (
        isinstance(query, Iterable)
        and not isinstance(query, str | bytes | Mapping)
        and not _is_chat(query)
    )
    queries = list(query) if several else [query]
    texts = [
        _text_of(one, f"query {row + 1}" if several else "the query")
        for row, one in enumerate(queries)
    ]
    for name, value in (("n_best", n_best), ("max_steps", max_steps), ("min_steps", min_steps)):
        if not (value is None and name != "min_steps") and not is_whole(value):
            raise GraftError(f"{name} {value!r}: give a whole number")
    longest = planner.card["longest_plan"] + 1 if max_steps is None else max_steps
    if constrain == "off":
        if n_best is not None or allow is not None or deny or min_steps != 1:
            raise GraftError(
                "constrain='off' is a plain greedy run: leave out n_best, allow, deny and min_steps"
            )
        plans: list[Any] = _plan_unconstrained(planner, texts, longest)
    elif constrain in ("graph", "tools"):
        if n_best is not None and n_best < 1:
            raise GraftError(f"n_best {n_best}: give 1 or more, or None for the greedy plan")
        request = Request(
            allowed=_allowed(planner, allow, deny),
            follow_graph=constrain == "graph",
            min_steps=min_steps,
            max_steps=max(longest, min_steps) if max_steps is None else max_steps,
            plans=n_best or 1,
        )
        found = _plan_constrained(planner, texts, request)
        plans = [best[0] for best in found] if n_best is None else list(found)
    else:
        raise GraftError(f"constrain {constrain!r} is not one of 'graph', 'tools', 'off'")
    return plans if several else plans[0]


def _plan_constrained(planner: Planner, texts: Sequence[str], request: Request) -> list[list[Plan]]:
    if not texts:
        return []
    cuts = [planner.prompts.student(text) for text in texts]
    limits = make_limits(request, _successors(planner), planner.index.capacity)
    found = decode_prompts(
        planner.params,
        planner.index,
        planner.spec,
        [cut.ids for cut in cuts],
        limits,
        request.plans,
    )
    if not np.isfinite(found.log_probs[:, 0]).all():
        raise GraftError(
            "the planner's weights give probabilities that are not numbers; train it again"
        )
    return [
        [
            _constrained_plan(planner, found, row, beam, texts[row], cut.truncated, len(cut.ids))
            for beam in range(request.plans)
            if np.isfinite(found.log_probs[row, beam])
        ]
        for row, cut in enumerate(cuts)
    ]


def _constrained_plan(
    planner: Planner,
    found: Decoded,
    row: int,
    beam: int,
    query: str,
    truncated: bool,
    prompt_tokens: int,
) -> Plan:
    chosen = found.entries[row, beam]
    length = int(np.argmax(chosen == 0))  # an end always stands in the row: max_steps forces it
    tools = tuple(_name(planner, entry) for entry in chosen[:length])
    probabilities = np.exp(found.step_log_probs[row, beam])
    steps = []
    for step, tool in enumerate(tools):
        entries_here = found.runners_up[row, beam, step]
        chances = np.exp(found.runner_log_probs[row, beam, step])
        others = tuple(
            (None if entry == 0 else _name(planner, entry), float(chance))
            for entry, chance in zip(entries_here, chances, strict=True)
            if entry != chosen[step] and chance > 0
        )
        pair = (tools[step - 1], tool) if step else None
        edge = pair if pair in planner.catalog.edge_set else None
        steps.append(Step(tool, float(probabilities[step]), others, edge))
    return Plan(
        query=query,
        tools=tools,
        log_prob=float(found.log_probs[row, beam]),
        is_legal=planner.catalog.is_legal(tools),
        steps=tuple(steps),
        end_probability=float(probabilities[length]),
        truncated=truncated,
        prompt_tokens=prompt_tokens,
        generated_tokens=length + 1,
    )


def _plan_unconstrained(planner: Planner, texts: Sequence[str], max_steps: int) -> list[Plan]:
    if not texts:
        return []
    cuts = [planner.prompts.student(text) for text in texts]
    tokens, scores = decode_prompts_unconstrained(
        planner.params,
        planner.index,
        planner.spec,
        [cut.ids for cut in cuts],
        entries(planner.tokenizer),
        max_steps,
    )
    return [
        _unconstrained_plan(planner, text, cut.truncated, len(cut.ids), ids, chances)
        for text, cut, ids, chances in zip(texts, cuts, tokens, scores, strict=True)
    ]


def _unconstrained_plan(
    planner: Planner,
    query: str,
    truncated: bool,
    prompt_tokens: int,
    tokens: np.ndarray,
    scores: np.ndarray,
) -> Plan:
    ends = np.flatnonzero(tokens == planner.spec.end_id)
    length = int(ends[0]) if len(ends) else len(tokens)
    steps: list[Step] = []
    words = 0
    stretch: list[int] = []

    def close() -> None:
        if stretch:
            steps.append(Step(str(planner.tokenizer.decode(stretch)), math.nan, (), None))
            stretch.clear()

    for token, score in zip(tokens[:length], scores[:length], strict=True):
        if token < planner.spec.vocab_size:
            words += 1
            stretch.append(int(token))
            continue
        close()
        name = _name(planner, token - planner.spec.vocab_size + 1)
        pair = (steps[-1].tool, name) if steps else None
        edge = pair if pair in planner.catalog.edge_set else None
        steps.append(Step(name, math.exp(score), (), edge))
    close()
    tools = tuple(step.tool for step in steps)
    ended = bool(len(ends))
    return Plan(
        query=query,
        tools=tools,
        log_prob=float(scores[: length + ended].sum()),
        is_legal=words == 0 and planner.catalog.is_legal(tools),
        steps=tuple(steps),
        end_probability=float(np.exp(scores[length])) if ended else 0.0,
        truncated=truncated,
        prompt_tokens=prompt_tokens,
        generated_tokens=length + ended,
        non_tool_tokens=words,
    )


def add_tool(
    planner: Planner,
    tool: Tool,
    predecessors: Iterable[str] = (),
    successors: Iterable[str] = (),
) -> Planner:
    """A planner that can use one more tool at once, without training: its row is the mean row of
    its name and description. The old planner is unchanged; nothing compiles while the tool table
    has room.

    Raises:
      GraftError: the name exists, or an edge's other end does not.
    """
    catalog = planner.catalog.with_tool(
        tool, _names(predecessors, "predecessors"), _names(successors, "successors")
    )
    rows = list(planner.rows)
    if None not in rows:
        rows += [None] * len(rows)
    place = rows.index(None)
    rows[place] = tool.name
    ids = encode_text(planner.tokenizer, text_of(tool))
    fresh = init_tool_rows(planner.params.base, [ids], 1)
    size = len(rows)
    grow = ((0, size - planner.params.tools.embed.shape[0]), (0, 0))
    old = planner.params.tools
    tools = ToolRows(
        embed=jnp.pad(old.embed, grow).at[place].set(fresh.embed[0]),
        head=None
        if old.head is None or fresh.head is None
        else jnp.pad(old.head, grow).at[place].set(fresh.head[0]),
    )
    return _with_rows(planner, catalog, tuple(rows), tools)


def remove_tool(planner: Planner, name: str) -> Planner:
    """A planner that never uses the tool again. The old planner is unchanged.

    Raises:
      GraftError: there is no such tool.
    """
    catalog = planner.catalog.without_tool(name)
    rows = tuple(None if other == name else other for other in planner.rows)
    return _with_rows(planner, catalog, rows, planner.params.tools)


def _with_rows(
    planner: Planner, catalog: Catalog, rows: tuple[str | None, ...], tools: ToolRows
) -> Planner:
    changed = dataclasses.replace(
        planner,
        catalog=catalog,
        rows=rows,
        params=dataclasses.replace(planner.params, tools=tools),
    )
    sets = [np.array(list(changed.row_of.values())), *_successors(changed)]
    words = np.stack([tool_bits(tools_allowed, len(rows)) for tools_allowed in sets])
    index = Index(valid=jnp.asarray(words[0]), successors=jnp.asarray(words))
    return dataclasses.replace(changed, index=index)


def _successors(planner: Planner) -> list[np.ndarray]:
    """Successors by row of the tool table; none for an empty row."""
    row_of = planner.row_of
    to_row = np.array([row_of[name] for name in planner.catalog.names], np.int64)
    by_row = [np.zeros(0, np.int64)] * len(planner.rows)
    for number, targets in enumerate(planner.catalog.successors):
        by_row[to_row[number]] = to_row[targets]
    return by_row


def _name(planner: Planner, entry: int) -> str:
    name = planner.rows[entry - 1]
    assert name is not None, "a row without a tool is masked"
    return name


def _allowed(planner: Planner, allow: Iterable[str] | None, deny: Iterable[str]) -> np.ndarray:
    """bool [M]: the rows a request may use."""
    row_of = planner.row_of

    def rows(names: Iterable[str], option: str) -> list[int]:
        names = _names(names, option)
        unknown = [name for name in names if name not in row_of]
        if unknown:
            raise GraftError(
                f"{option}: {unknown[0]!r} is no tool of the catalog; use names as catalog.json "
                "has them"
            )
        return [row_of[name] for name in names]

    allowed = np.zeros(len(planner.rows), bool)
    allowed[list(row_of.values()) if allow is None else rows(allow, "allow")] = True
    allowed[rows(deny, "deny")] = False
    return allowed


def _names(names: Any, option: str) -> list[str]:
    """The names as a list.

    Raises:
      GraftError: `names` is one text, or holds something that is none.
    """
    several = isinstance(names, Iterable) and not isinstance(names, str | bytes)
    names = list(names) if several else [None]
    if not all(isinstance(name, str) for name in names):
        raise GraftError(f"{option}: give a list of tool names")
    return names


def _is_chat(query: Any) -> bool:
    return (
        isinstance(query, Sequence)
        and not isinstance(query, str | bytes)
        and len(query) > 0
        and all(isinstance(message, Mapping) for message in query)
    )


def _text_of(query: Any, where: str) -> str:
    """The request as text. Of a chat it is what the user said, one turn a line."""
    if _is_chat(query):
        turns = [message for message in query if message.get("role") == "user"]
        if not turns or query[-1].get("role") != "user":
            raise GraftError(f"{where}: a chat must end with a message of role 'user'")
        query = "\n".join(_content(message.get("content"), where) for message in turns)
    if not isinstance(query, str):
        raise GraftError(
            f"{where}: is {type(query).__name__}; give a text or a list of chat messages"
        )
    query = query.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate is no text
    if not query.strip():
        raise GraftError(f"{where}: is empty; say what is to be done")
    return query


def _content(content: Any, where: str) -> str:
    """A message's content: a text, or parts of which the texts count."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence) and all(isinstance(part, Mapping) for part in content):
        parts = [part.get("text") for part in content]
        return "\n".join(part for part in parts if isinstance(part, str))
    raise GraftError(f"{where}: a message's content is {type(content).__name__}; give a text")
