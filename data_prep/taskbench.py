"""TaskBench (HuggingFace, Multimedia, DailyLife): any folder of that format, its chains only."""

from pathlib import Path

from data_prep import family
from data_prep.manifest import Converted, Table3
from data_prep.plans import subtask_text
from data_prep.records import Tally
from data_prep.splits import split_examples
from graft_jax.data.examples import Example
from graft_jax.errors import GraftError

# By number of tools: the three domains are told apart by nothing else in their files.
PAPER = {
    23: Table3(tools=23, edges=225, train=2351, validation=500, test=500, max_length=8),
    40: Table3(tools=40, edges=449, train=1835, validation=500, test=500, max_length=8),
}


def convert(
    folder: Path,
    official: bool = True,
    held_out: int = 500,
    seed: int = 0,
    published_at: str = "",
) -> Converted:
    """Reads a folder of the published files; arguments as `ultratool.convert`.

    Raises:
      GraftError: a file is missing (data.json is: the message says where it is published) or
        damaged; a split would be empty.
    """
    if not (folder / family.DATA).exists():
        where = published_at or "the data set's authors"
        raise GraftError(
            f"{folder / family.DATA}: no such file; it holds the gold plans and is published at "
            f"{where}: download it into this folder"
        )
    tally = Tally()
    catalog = family.load_catalog(folder)
    test_ids = family.load_test_ids(folder) if official else None
    chains, rows_read = family.load_chains(folder, catalog, tally)
    examples, raw = [], {}
    for chain in chains:
        subtasks = tuple(subtask_text(step, ()) for step in chain.steps)
        if len(subtasks) != len(chain.tools) or not all(subtasks):
            tally.note("not one step a tool: no subtasks, serves no grounding", chain.id)
            subtasks = ()
        else:
            raw[chain.id] = chain.steps
        examples.append(Example(chain.id, chain.query, subtasks, chain.tools))
    family.note_test_ids(test_ids, {example.id for example in examples}, tally)
    paper = PAPER.get(len(catalog.tools))
    return Converted(
        dataset="taskbench",
        catalog=catalog,
        splits=split_examples(examples, test_ids, held_out, seed),
        tally=tally,
        rows_read=rows_read,
        files=family.files_of(folder),
        published_at=published_at,
        licence="MIT",
        filter="chains only",
        split=family.describe_split(test_ids, held_out),
        seed=seed,
        paper=paper if paper and paper.edges == len(catalog.edges) else None,
        raw_subtasks=raw,
    )
