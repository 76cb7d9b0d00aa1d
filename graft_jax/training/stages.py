"""The four stages as rows of one table: how many steps, which batch at step k, which loss.

A batch is a pure function of (seed, stage, step), so that a run's position is one number.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from graft_jax.catalog.catalog import Catalog
from graft_jax.catalog.graph import (
    edge_candidates,
    hold_out_edges,
    length_distribution,
    sample_paths,
)
from graft_jax.config import Config, Optimizer
from graft_jax.data.batches import (
    DistillBatch,
    TokenSequence,
    pack_sequences,
    pad_plans,
    pad_prompts,
    path_batch,
)
from graft_jax.data.examples import Example, subtask_pairs
from graft_jax.data.order import Batch, batch_plan, batches_per_epoch, bucket
from graft_jax.data.prompts import Prompts
from graft_jax.decoding.masks import Index, unpack
from graft_jax.decoding.rollouts import jitted, mapped, rollout
from graft_jax.errors import GraftError
from graft_jax.models.passes import with_adapter
from graft_jax.models.spec import ModelSpec
from graft_jax.sharding import place_rows
from graft_jax.training.objectives import (
    DistillInputs,
    distill_objective,
    edge_objective,
    plan_logits,
    token_objective,
)
from graft_jax.training.step import Objective, TrainState

STAGES = ("grounding", "edges", "sft", "distill")
# (state, base, batch on the devices, stage step) -> the objective's inputs
Prepare = Callable[[TrainState, dict[str, Any], Any, int], Any]


@dataclasses.dataclass(frozen=True)
class Stage:
    """One row of the table.

    batch: step -> arrays (NumPy); tokens: step's batch -> tokens in it that are not padding;
    prepare: what happens between a batch and the objective (rollouts), None for nothing; validated:
    whether plans are scored on the validation split while it trains.
    """

    name: str
    steps: int
    batch: Callable[[int], Any]
    tokens: Callable[[Any], int]
    objective: Objective
    optimizer: Optimizer
    prepare: Prepare | None = None
    validated: bool = False


@dataclasses.dataclass(frozen=True)
class Task:
    """What the stages read: the catalog, training rows, prompts and sizes."""

    catalog: Catalog
    train: Sequence[Example]
    prompts: Prompts
    spec: ModelSpec
    index: Index
    words: int  # real entries of the backbone's vocabulary

    @property
    def longest(self) -> int:
        """R_max: tools of the longest training plan."""
        return max(len(example.tools) for example in self.train)

    @property
    def valid(self) -> jax.Array:
        """The tools that exist, bool [M]."""
        return unpack(self.index.valid)

    def plan_ids(self, example: Example) -> list[int]:
        """Tool numbers of an example's plan."""
        return [self.catalog.index[tool] for tool in example.tools]


def make_stages(config: Config, task: Task, mesh: Mesh) -> list[Stage]:
    """The stages that the config has switched on, in order.

    Raises:
      GraftError: a stage has nothing to train on; says which.
    """
    makers: dict[str, Callable[[Config, Task], Stage]] = {
        "grounding": _grounding,
        "edges": _edges,
        "sft": _sft,
        "distill": partial(_distill, mesh=mesh),
    }
    return [makers[name](config, task) for name in STAGES if getattr(config, name).enabled]


def _grounding(config: Config, task: Task) -> Stage:
    pairs = [
        TokenSequence(
            task.prompts.grounding(subtask).ids, (task.spec.vocab_size + task.catalog.index[tool],)
        )
        for subtask, tool in subtask_pairs(task.train)
    ]
    if not pairs:
        raise GraftError(
            "grounding: no training example has one subtask a tool; add subtasks, or switch the "
            "stage off with --grounding.no-enabled"
        )
    return _token_stage(config, task, "grounding", 1, lambda _: pairs, labels=1)


def _edges(config: Config, task: Task) -> Stage:
    settings = config.edges
    if not task.catalog.edges:
        raise GraftError(
            "edges: the catalog has no edges; add them, or switch the stage off with "
            "--edges.no-enabled"
        )
    kept, held_out = hold_out_edges(task.catalog, settings.hold_out, config.seed)
    lengths = length_distribution([example.tools for example in task.train])
    width = task.longest

    def batch(step: int) -> Any:
        paths = sample_paths(kept, lengths, settings.batch_size, (config.seed, 2, step))
        nodes = np.full((len(paths), width), -1)
        for row, path in enumerate(paths):
            nodes[row, : len(path)] = path
        rng = np.random.default_rng((config.seed, 3, step))
        candidates, positive = edge_candidates(
            nodes, kept, held_out, len(task.catalog), settings.negatives, rng=rng
        )
        return path_batch(
            nodes, candidates, positive, task.prompts.first_token, task.spec.vocab_size
        )

    return Stage(
        name="edges",
        steps=settings.steps,
        batch=batch,
        tokens=_count_tokens,
        objective=edge_objective(task.spec, settings.temperature),
        optimizer=settings.optimizer,
    )


def _sft(config: Config, task: Task) -> Stage:
    settings = config.sft
    vocabulary = task.spec.vocab_size
    targets = [
        (*(vocabulary + tool for tool in task.plan_ids(example)), task.spec.end_id)
        for example in task.train
    ]
    student = [
        TokenSequence(task.prompts.student(example.query).ids, target)
        for example, target in zip(task.train, targets, strict=True)
    ]
    teacher = [
        TokenSequence(_teacher_prompt(task, example), target)
        for example, target in zip(task.train, targets, strict=True)
    ]

    def thinned(sequence: TokenSequence, rng: np.random.Generator) -> TokenSequence:
        prompt = task.prompts.thinned(sequence.prompt, settings.word_dropout, rng)
        return TokenSequence(prompt, sequence.targets)

    @lru_cache(maxsize=1)
    def sequences(epoch: int) -> list[TokenSequence]:
        # Which examples carry the teacher's prompt, and which words of a request are left out,
        # changes from epoch to epoch.
        rng = np.random.default_rng((config.seed, 4, epoch))
        return [
            b if chance < settings.teacher_share else thinned(a, rng)
            for a, b, chance in zip(student, teacher, rng.random(len(student)), strict=True)
        ]

    return _token_stage(config, task, "sft", 5, sequences, labels=task.longest + 1, validated=True)


def _token_stage(
    config: Config,
    task: Task,
    name: str,
    order_seed: int,
    sequences: Callable[[int], list[TokenSequence]],
    labels: int,
    validated: bool = False,
) -> Stage:
    """A stage of prompts and targets: `sequences` gives an epoch's, always as many."""
    settings = getattr(config, name)
    per_epoch = batches_per_epoch(len(sequences(0)), settings.batch_size)
    order = _Order(
        (config.seed, order_seed),
        lambda epoch: np.array([len(sequence) for sequence in sequences(epoch)]),
        settings.batch_size,
        per_epoch,
    )

    def batch(step: int) -> Any:
        width, rows, epoch = order(step)
        chosen = sequences(epoch)
        return pack_sequences([[chosen[row]] for row in rows], width, labels)

    return Stage(
        name=name,
        steps=max(round(settings.epochs * per_epoch), 1),
        batch=batch,
        tokens=_count_tokens,
        objective=token_objective(task.spec, task.words, task.valid, settings.restricted),
        optimizer=settings.optimizer,
        validated=validated,
    )


def _teacher_prompt(task: Task, example: Example) -> tuple[int, ...]:
    return task.prompts.teacher(example.query, example.subtasks, task.plan_ids(example)).ids


def _distill(config: Config, task: Task, mesh: Mesh) -> Stage:
    settings = config.distill
    rows = distill_rows(task, task.train)
    lengths = np.array([len(row.student) for row in rows])
    per_epoch = batches_per_epoch(len(rows), settings.batch_size)
    order = _Order((config.seed, 6), lambda _: lengths, settings.batch_size, per_epoch)

    def batch(step: int) -> DistillBatch:
        width, chosen, _ = order(step)
        rng = np.random.default_rng((config.seed, 7, step))
        picked = [
            dataclasses.replace(
                row, student=task.prompts.thinned(row.student, settings.word_dropout, rng)
            )
            for row in (rows[number] for number in chosen)
        ]
        return distill_batch(task, picked, chosen, width)

    return Stage(
        name="distill",
        steps=max(round(settings.epochs * per_epoch), 1),
        batch=batch,
        tokens=lambda batch: int(batch.student.lengths.sum() + batch.teacher.lengths.sum()),
        objective=distill_objective(task.spec, task.words, task.valid, settings.weight),
        optimizer=settings.optimizer,
        prepare=make_prepare(config, task, mesh),
        validated=True,
    )


@dataclasses.dataclass(frozen=True)
class DistillRow:
    """An example as distillation reads it: both prompts and the plan's tool numbers."""

    student: tuple[int, ...]
    teacher: tuple[int, ...]
    plan: list[int]


def distill_rows(task: Task, examples: Sequence[Example]) -> list[DistillRow]:
    """Both prompts of every example (Eq. 10)."""
    return [
        DistillRow(
            task.prompts.student(example.query).ids,
            _teacher_prompt(task, example),
            task.plan_ids(example),
        )
        for example in examples
    ]


def distill_batch(
    task: Task, picked: Sequence[DistillRow], numbers: np.ndarray, width: int
) -> DistillBatch:
    """Rows and their numbers as arrays; `width` is the bucket of the student's prompts."""
    gold, gold_mask = pad_plans([row.plan for row in picked], task.longest + 1)
    return DistillBatch(
        student=pad_prompts([row.student for row in picked], width),
        teacher=pad_prompts(
            [row.teacher for row in picked], bucket(max(len(row.teacher) for row in picked))
        ),
        gold=gold,
        gold_mask=gold_mask,
        row=np.asarray(numbers, np.int32),
    )


def make_prepare(config: Config, task: Task, mesh: Mesh) -> Prepare:
    """Student rollouts from the query alone, scored along the same prefixes by the teacher."""
    settings = config.distill
    run = rollout(task.spec, task.longest + 2, settings.rollouts, settings.temperature)
    whole_base = mesh.shape["fsdp"] == mesh.shape["tensor"] == 1
    roll = mapped(run, mesh) if whole_base and mesh.size > 1 else jitted(run)
    score = jax.jit(
        lambda params, prompts, entries: plan_logits(
            params, task.spec, prompts, entries, task.valid
        )
    )
    seed = jax.random.key(config.seed)

    def prepare(
        state: TrainState, base: dict[str, Any], batch: DistillBatch, step: int
    ) -> DistillInputs:
        # A row's sampling key is fold_in(fold_in(seed, step), row).
        at_step = jax.random.fold_in(seed, step)
        keys = jax.vmap(partial(jax.random.fold_in, at_step))(batch.row)
        entries, mask = roll(
            with_adapter(base, state.adapter),
            task.index,
            batch.student.ids,
            batch.student.lengths,
            keys,
        )
        assert state.teacher is not None
        logits = score(with_adapter(base, state.teacher), batch.teacher, entries)
        return DistillInputs(batch.student, batch.gold, batch.gold_mask, entries, mask, logits)

    return prepare


class _Order:
    """step -> (bucket, rows, epoch); keeps the plan of the epoch it was asked for last."""

    def __init__(
        self,
        seed: tuple[int, int],
        lengths: Callable[[int], np.ndarray],
        batch_size: int,
        per_epoch: int,
    ) -> None:
        self._seed, self._lengths = seed, lengths
        self._batch_size, self._per_epoch = batch_size, per_epoch
        self._epoch = -1
        self._plan: list[Batch] = []

    def __call__(self, step: int) -> tuple[int, np.ndarray, int]:
        epoch, position = divmod(step, self._per_epoch)
        if epoch != self._epoch:
            self._plan = batch_plan(self._seed, epoch, self._lengths(epoch), self._batch_size)
            self._epoch = epoch
        width, rows = self._plan[position]
        return width, rows, epoch


def _count_tokens(batch: Any) -> int:
    return int((batch.segments > 0).sum())


def to_devices(mesh: Mesh, batch: Any) -> Any:
    """A batch's NumPy arrays on the devices, rows spread over the mesh."""
    return place_rows(mesh, jax.tree.map(jnp.asarray, batch))
