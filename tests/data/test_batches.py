"""Rows into arrays: labels stand where they are predicted, padding stays padding."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graft_jax.data.batches import (
    TokenSequence,
    pack_sequences,
    pad_plans,
    pad_prompts,
    path_batch,
)

ids = st.integers(1, 400)
sequences = st.builds(
    TokenSequence,
    st.lists(ids, min_size=1, max_size=6).map(tuple),
    st.lists(ids, min_size=1, max_size=4).map(tuple),
)
check = settings(max_examples=60, deadline=None)


@check
@given(rows=st.lists(st.lists(sequences, max_size=3), min_size=1, max_size=3))
def test_labels_stand_where_they_are_predicted(rows: list[list[TokenSequence]]) -> None:
    batch = pack_sequences(rows, 32, 16)
    for b, row in enumerate(rows):
        label = 0
        for number, sequence in enumerate(row, start=1):
            columns = np.flatnonzero(batch.segments[b] == number)
            assert len(columns) == len(sequence)
            whole = (*sequence.prompt, *sequence.targets)
            assert tuple(batch.tokens[b, columns]) == whole[:-1]
            assert batch.positions[b, columns].tolist() == list(range(len(sequence)))
            for target in sequence.targets:
                at = int(batch.label_pos[b, label])
                assert batch.label_mask[b, label] == 1
                assert batch.labels[b, label] == target
                # What has been read up to there is what stands before the target.
                read = tuple(batch.tokens[b, columns[columns <= at]])
                assert read == whole[: len(read)]
                assert whole[len(read)] == target
                label += 1
        assert not batch.label_mask[b, label:].any()
        assert not batch.tokens[b, batch.segments[b] == 0].any()
        assert (batch.segments[b] > 0).sum() == sum(map(len, row))


def test_the_end_of_a_plan_is_a_label_like_any_other() -> None:
    """Also where the backbone pads with it."""
    batch = pack_sequences([[TokenSequence((5, 6), (300, 2))]], 8, 4)
    assert batch.labels[0, :2].tolist() == [300, 2]
    assert batch.label_mask[0].tolist() == [1, 1, 0, 0]
    assert batch.tokens[0, :3].tolist() == [5, 6, 300]


def test_prompts_are_padded_on_the_right() -> None:
    batch = pad_prompts([[7, 8], [9], [1, 2, 3]], 4)
    assert batch.ids.tolist() == [[7, 8, 0, 0], [9, 0, 0, 0], [1, 2, 3, 0]]
    assert batch.lengths.tolist() == [2, 1, 3]


def test_plans_end_with_end_of_plan() -> None:
    entries, mask = pad_plans([[0, 2], [5], [1, 1, 1]], 4)
    assert entries.tolist() == [[1, 3, 0, 0], [6, 0, 0, 0], [2, 2, 2, 0]]
    assert mask.tolist() == [[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]]


def test_paths_start_with_the_first_token_and_keep_their_candidates() -> None:
    paths = np.array([[3, 0], [1, -1]])
    candidates = np.array([[[0, 2], [3, -1]], [[0, 1], [-1, -1]]])
    positive = np.array([[[True, False], [True, False]], [[True, False], [False, False]]])
    batch = path_batch(paths, candidates, positive, first_token=1, vocabulary=300)
    assert batch.tokens.tolist() == [[1, 303, 300], [1, 301, 0]]
    assert batch.positions.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert batch.segments.tolist() == [[1, 1, 1], [1, 1, 0]]
    assert (batch.present == (candidates >= 0)).all()
    assert (batch.candidates[batch.present] == candidates[candidates >= 0]).all()
    assert batch.candidates.min() >= 0
    assert (batch.positive == positive).all()
