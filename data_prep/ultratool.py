"""UltraTool: the main benchmark. Published folder -> catalog, splits and what was odd.

Its steps read "Step 2 Call <tool> to <do this>": the words before <do this> name the gold tool and
are taken out of the subtask.
"""

import dataclasses
from collections.abc import Collection
from pathlib import Path

from data_prep import family
from data_prep.manifest import Converted, Table3
from data_prep.plans import called_tool, subtask_text
from data_prep.records import Tally
from data_prep.splits import split_examples
from graft_jax.data.examples import Example
from graft_jax.errors import GraftError

PAPER = Table3(tools=260, edges=611, train=2185, validation=500, test=500, max_length=5)
FILTERS = {
    "all": "all: every chain takes part",
    "paper": (
        "paper: the rows of the paper's count; left out are rows with more steps than tools, and "
        "rows whose i-th 'Call X' is not the i-th tool"
    ),
}


def convert(
    folder: Path,
    filter: str = "all",
    official: bool = True,
    held_out: int = 500,
    seed: int = 0,
    published_at: str = "",
) -> Converted:
    """Reads a folder of the published files.

    Args:
      folder: with data.json, graph_desc.json, tool_desc.json, split_ids.json.
      filter: a key of FILTERS.
      official: test is the published list of ids; otherwise `held_out` seeded ids.
      held_out: size of the validation split (and of a seeded test split).
      seed: of the draws.
      published_at: where the files come from, for the manifest.

    Raises:
      GraftError: a file is missing or damaged; an unknown filter; a split would be empty.
    """
    if filter not in FILTERS:
        raise GraftError(f"filter {filter!r} is not one of {', '.join(FILTERS)}")
    tally = Tally()
    catalog = family.load_catalog(folder)
    test_ids = family.load_test_ids(folder) if official else None
    chains, rows_read = family.load_chains(folder, catalog, tally)
    if filter == "paper":
        chains = [chain for chain in chains if _in_paper_count(chain, tally)]
    examples, raw = [], {}
    for chain in chains:
        raw[chain.id] = chain.steps
        chain = _match_steps(chain, tally)
        subtasks = _subtasks(chain, catalog.index.keys(), tally)
        examples.append(Example(chain.id, chain.query, subtasks, chain.tools))
    family.note_test_ids(test_ids, {example.id for example in examples}, tally)
    return Converted(
        dataset="ultratool",
        catalog=catalog,
        splits=split_examples(examples, test_ids, held_out, seed),
        tally=tally,
        rows_read=rows_read,
        files=family.files_of(folder),
        published_at=published_at,
        licence="MIT",
        filter=FILTERS[filter],
        split=family.describe_split(test_ids, held_out),
        seed=seed,
        paper=PAPER,
        raw_subtasks=raw,
    )


def _in_paper_count(chain: family.Chain, tally: Tally) -> bool:
    if len(chain.steps) > len(chain.tools):
        tally.leave_out("filter paper: more steps than tools", chain.id)
        return False
    named = tuple(called_tool(step) for step in chain.steps)
    if len(chain.steps) == len(chain.tools) and named != chain.tools:
        tally.leave_out("filter paper: the i-th 'Call X' is not the i-th tool", chain.id)
        return False
    return True


def _match_steps(chain: family.Chain, tally: Tally) -> family.Chain:
    """Steps in the order of the plan, where they call exactly its tools in another order."""
    named = [called_tool(step) for step in chain.steps]
    if len(named) != len(chain.tools) or tuple(named) == chain.tools:
        return chain
    if sorted(chain.tools) == sorted(name or "" for name in named):
        tally.note("steps call the plan's tools in another order: put in the plan's", chain.id)
        steps = dict(zip(named, chain.steps, strict=True))
        return dataclasses.replace(chain, steps=tuple(steps[tool] for tool in chain.tools))
    if None in named:
        tally.note("a step without 'Call <tool>': subtasks kept by position", chain.id)
    else:
        tally.note("steps call another tool than the plan's: subtasks kept by position", chain.id)
    return chain


def _subtasks(chain: family.Chain, names: Collection[str], tally: Tally) -> tuple[str, ...]:
    """One subtask a tool, or none at all."""
    difference = len(chain.steps) - len(chain.tools)
    if difference:
        kind = "more" if difference > 0 else "fewer"
        tally.note(f"{kind} steps than tools: no subtasks, serves no grounding", chain.id)
        return ()
    subtasks = tuple(subtask_text(step, names) for step in chain.steps)
    if not all(subtasks):
        tally.note("a step without text: no subtasks, serves no grounding", chain.id)
        return ()
    return subtasks
