"""Rows into arrays: what the jitted steps read. NumPy in, NumPy out; pure functions.

Token ids below V are the backbone's, V + i is tool i. In the restricted space 0 is end-of-plan and
i + 1 is tool i.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from flax import struct

Array = Any  # made by NumPy, a jax.Array in a step


@struct.dataclass
class TokenBatch:
    """Sequences with labels at some positions.

    tokens, positions, segments int [B, T] (segment 0 is padding); label_pos, labels int [B, S]: the
    token `labels` is predicted at column `label_pos`; label_mask float32 [B, S].
    """

    tokens: Array
    positions: Array
    segments: Array
    label_pos: Array
    labels: Array
    label_mask: Array


@struct.dataclass
class PathBatch:
    """Sampled paths (Eq. 6) and the candidates of Eq. 8.

    tokens, positions, segments int [B, 1 + R]: a first token, then tools; candidates int [B, R, C]
    tool numbers; positive, present bool [B, R, C].
    """

    tokens: Array
    positions: Array
    segments: Array
    candidates: Array
    positive: Array
    present: Array


@struct.dataclass
class PromptBatch:
    """Right-padded prompts: ids int [B, T], lengths int [B]."""

    ids: Array
    lengths: Array


@struct.dataclass
class DistillBatch:
    """What a distillation step reads: both prompts of each row, its gold plan, its number.

    gold int [B, S]: restricted-space entries, end-of-plan included, 0 after it; gold_mask float32
    [B, S]; row int [B]: the example's number, from which its sampling key is made.
    """

    student: PromptBatch
    teacher: PromptBatch
    gold: Array
    gold_mask: Array
    row: Array


@dataclasses.dataclass(frozen=True)
class TokenSequence:
    """One training sequence: a prompt and the tokens that are to follow it."""

    prompt: tuple[int, ...]
    targets: tuple[int, ...]

    def __len__(self) -> int:
        # The last target is predicted, never read.
        return len(self.prompt) + len(self.targets) - 1


def pack_sequences(
    rows: Sequence[Sequence[TokenSequence]], width: int, label_width: int
) -> TokenBatch:
    """Each row of the batch holds one or more sequences side by side, each its own segment.

    `width` T and `label_width` S are static sizes that must hold every row.
    """
    shape, label_shape = (len(rows), width), (len(rows), label_width)
    tokens, positions, segments = (np.zeros(shape, np.int32) for _ in range(3))
    label_pos, labels = (np.zeros(label_shape, np.int32) for _ in range(2))
    mask = np.zeros(label_shape, np.float32)
    for b, sequences in enumerate(rows):
        column, label = 0, 0
        for number, sequence in enumerate(sequences, start=1):
            ids = (*sequence.prompt, *sequence.targets[:-1])
            span = slice(column, column + len(ids))
            tokens[b, span] = ids
            positions[b, span] = np.arange(len(ids))
            segments[b, span] = number
            labelled = slice(label, label + len(sequence.targets))
            first = column + len(sequence.prompt) - 1
            label_pos[b, labelled] = first + np.arange(len(sequence.targets))
            labels[b, labelled] = sequence.targets
            mask[b, labelled] = 1.0
            column, label = span.stop, labelled.stop
    return TokenBatch(tokens, positions, segments, label_pos, labels, mask)


def pad_prompts(prompts: Sequence[Sequence[int]], width: int) -> PromptBatch:
    """Prompts right-padded with 0 to `width` columns."""
    ids = np.zeros((len(prompts), width), np.int32)
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt)] = prompt
    return PromptBatch(ids, np.array([len(prompt) for prompt in prompts], np.int32))


def pad_plans(plans: Sequence[Sequence[int]], steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Plans of tool numbers as restricted-space entries [B, S] with end-of-plan, and their mask."""
    entries = np.zeros((len(plans), steps), np.int32)
    mask = np.zeros((len(plans), steps), np.float32)
    for row, plan in enumerate(plans):
        entries[row, : len(plan)] = np.asarray(plan) + 1
        mask[row, : len(plan) + 1] = 1.0
    return entries, mask


def path_batch(
    paths: np.ndarray,
    candidates: np.ndarray,
    positive: np.ndarray,
    first_token: int,
    vocabulary: int,
) -> PathBatch:
    """Paths of tool numbers int [B, R] (-1 pads) and their candidates int [B, R, C] (-1 pads)."""
    real = paths >= 0
    first = np.full((len(paths), 1), first_token)
    tokens = np.concatenate([first, np.where(real, vocabulary + paths, 0)], axis=1)
    segments = np.concatenate([np.ones_like(first), real], axis=1)
    positions = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
    return PathBatch(
        tokens=tokens.astype(np.int32),
        positions=positions.astype(np.int32),
        segments=segments.astype(np.int32),
        candidates=np.maximum(candidates, 0).astype(np.int32),
        positive=positive,
        present=candidates >= 0,
    )
