"""The loop: every stage of a run from its last checkpoint to its end. Reads top to bottom.

A run's position is a stage and a step in it; whatever a step needs is a function of those, the seed
and the weights. So a run that is killed at any moment goes on from its last checkpoint to the same
weights, bit for bit on a CPU, as one that was not.
"""

import contextlib
import dataclasses
import math
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import grain.python as grain
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from graft_jax.config import Optimizer
from graft_jax.errors import GraftError
from graft_jax.io.checkpoint import Checkpoints
from graft_jax.models.adapter import Adapter
from graft_jax.sharding import replicate, row_shards
from graft_jax.training.optimizers import make_optimizer
from graft_jax.training.records import Progress, Records
from graft_jax.training.stages import Stage, to_devices
from graft_jax.training.step import TrainState, copy_tree, make_step

FINISHED = "finished"


class Stopped(Exception):
    """A signal asked the run to stop; its state is saved and the same command continues it."""


@dataclasses.dataclass(frozen=True)
class Position:
    """Where a run is: a stage, and the validation scores of the best adapter so far."""

    stage: str
    best: dict[str, float] | None = None


@dataclasses.dataclass(frozen=True)
class Hooks:
    """What a run does around the stages.

    validate: scores of an adapter on held-out examples; at_end and at_start: a stage's report, or
    nothing, from its name and the adapter with which it ends or starts.
    """

    validate: Callable[[Adapter], dict[str, float]]
    at_start: Callable[[str, Adapter], dict[str, Any] | None]
    at_end: Callable[[str, Adapter], dict[str, Any] | None]


def run_stages(
    stages: list[Stage],
    adapter: Adapter,
    base: dict[str, Any],
    mesh: Mesh,
    checkpoints: Checkpoints,
    open_records: Callable[[int], Records],
    hooks: Hooks,
    progress: Progress,
    checkpoint_every: int,
    validate_every: int,
    positions_at_once: int,
    fingerprint: dict[str, Any],
) -> tuple[Adapter, dict[str, float] | None]:
    """Trains `adapter` through the stages; returns the one with the best validation EM.

    Beside it its validation scores; None where the last stage was not validated.

    Each stage starts from the best adapter of the one before (its last, where nothing was
    validated) with a fresh optimiser. `fingerprint` is what a checkpoint must agree with.

    Raises:
      GraftError: a checkpoint of another run lies in the folder, or a loss is not a number.
      Stopped: after SIGTERM or SIGINT, once the state is saved.
    """
    offsets = _offsets(stages)
    names = [stage.name for stage in stages]
    latest = checkpoints.latest()
    if latest is None:
        position = Position(names[0])
        state = _begin(stages[0], adapter, mesh)
    else:
        notes = checkpoints.notes(latest)
        check_fingerprint(notes["fingerprint"], fingerprint)
        position = Position(**notes["position"])
        state = checkpoints.restore(latest, _like(stages, position, adapter, mesh))
        progress.say(f"continuing at step {latest} ({position.stage})")
    records = open_records(-1 if latest is None else latest)

    def save(step: int) -> None:
        notes = {"fingerprint": fingerprint, "position": dataclasses.asdict(position)}
        checkpoints.save(step, state, notes)

    with contextlib.closing(records), _signals() as stop_asked:
        for index, stage in enumerate(stages):
            if position.stage == FINISHED or index < names.index(position.stage):
                continue
            offset, first = offsets[stage.name], int(state.step)
            if first == 0:
                _report(records, stage, offset, 0, hooks.at_start(stage.name, state.adapter))
            progress.start(stage.name, first, stage.steps)
            step_function = make_step(
                stage.objective, _optimizer(stage), positions_at_once, row_shards(mesh)
            )
            drain = _Drain(records, progress, stage, offset)
            for step, batch in _batches(stage, first):
                inputs = to_devices(mesh, batch)
                if stage.prepare is not None:
                    inputs = stage.prepare(state, base, inputs, step)
                state, metrics = step_function(state, base, inputs)
                done = step + 1
                drain.put(done, metrics, stage.tokens(batch))
                if stage.validated and (done % validate_every == 0 or done == stage.steps):
                    drain.all()
                    scores = hooks.validate(state.adapter)
                    records.write(
                        {
                            "step": offset + done,
                            "stage": stage.name,
                            "stage_step": done,
                            "validation": scores,
                        }
                    )
                    progress.say(f"{stage.name}: step {done}  validation {_words(scores)}")
                    drain.restart()
                    if position.best is None or scores["em"] > position.best["em"]:
                        position = dataclasses.replace(position, best=scores)
                        state = dataclasses.replace(state, best=copy_tree(state.adapter))
                if done < stage.steps and (done % checkpoint_every == 0 or stop_asked()):
                    drain.all()
                    save(offset + done)
                    drain.restart()
                    if stop_asked():
                        raise Stopped
            drain.all()
            ended = state.adapter if state.best is None else state.best
            end = offset + stage.steps
            _report(records, stage, end, stage.steps, hooks.at_end(stage.name, ended))
            if index + 1 < len(stages):
                following = stages[index + 1]
                keep = following.validated and stage.validated
                position = Position(following.name, position.best if keep else None)
                # What distillation starts from is a candidate for the best, too.
                state = _begin(following, ended, mesh, best=ended if keep else None)
            else:
                position = Position(FINISHED, position.best)
                state = _begin(stage, ended, mesh)
            save(end)
            if stop_asked() and position.stage != FINISHED:
                raise Stopped
    return state.adapter, position.best


def _offsets(stages: list[Stage]) -> dict[str, int]:
    offsets, total = {}, 0
    for stage in stages:
        offsets[stage.name] = total
        total += stage.steps
    return offsets


def _optimizer(stage: Stage) -> optax.GradientTransformation:
    settings: Optimizer = stage.optimizer
    return make_optimizer(stage.steps, **dataclasses.asdict(settings))


def _begin(stage: Stage, adapter: Adapter, mesh: Mesh, best: Adapter | None = None) -> TrainState:
    """A stage's first state. Every tree has arrays of its own: a step gives the old ones up."""
    adapter = replicate(mesh, copy_tree(adapter))
    return TrainState(
        step=replicate(mesh, jnp.asarray(0)),
        adapter=adapter,
        opt=replicate(mesh, _optimizer(stage).init(adapter)),
        teacher=copy_tree(adapter) if stage.prepare is not None else None,
        best=None if best is None else copy_tree(best),
    )


def _like(stages: list[Stage], position: Position, adapter: Adapter, mesh: Mesh) -> TrainState:
    """The structure of the state that was saved at a position."""
    by_name = {stage.name: stage for stage in stages}
    stage = by_name.get(position.stage, stages[-1])
    best = adapter if position.stage != FINISHED and position.best is not None else None
    return _begin(stage, adapter, mesh, best)


def check_fingerprint(found: dict[str, Any], wanted: dict[str, Any], path: str = "") -> None:
    """Refuses a run that was started with another config, data or backbone, naming what differs."""
    for key in sorted({*found, *wanted}):
        a, b = found.get(key), wanted.get(key)
        name = f"{path}{key}"
        if isinstance(a, dict) and isinstance(b, dict):
            check_fingerprint(a, b, f"{name}.")
        elif a != b:
            raise GraftError(
                f"the run folder holds a run with another {name.removeprefix('config.')} ({a!r}, "
                f"now {b!r}); give another --run, or delete the folder to start anew"
            )


def _batches(stage: Stage, first: int) -> Iterator[tuple[int, Any]]:
    """(step, batch) from `first` on, prepared ahead by one thread, in order."""
    data = grain.MapDataset.range(first, stage.steps).map(lambda step: (step, stage.batch(step)))
    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
    yield from data.to_iter_dataset(options)


def _report(
    records: Records, stage: Stage, step: int, stage_step: int, report: dict[str, Any] | None
) -> None:
    if report is not None:
        place = {"step": step, "stage": stage.name, "stage_step": stage_step}
        records.write({**place, "report": report})


def _words(scores: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.4f}" for name, value in scores.items())


class _Drain:
    """Metrics are read one step late, so that the next step is under way before anyone waits."""

    def __init__(self, records: Records, progress: Progress, stage: Stage, offset: int) -> None:
        self._records, self._progress = records, progress
        self._stage, self._offset = stage, offset
        self._waiting: list[tuple[int, dict[str, jax.Array], int]] = []
        self.restart()

    def restart(self) -> None:
        """The clock starts anew: what happened since the last step was no training."""
        self._clock = time.perf_counter()

    def put(self, step: int, metrics: dict[str, jax.Array], tokens: int) -> None:
        self._waiting.append((step, metrics, tokens))
        if len(self._waiting) > 1:
            self._one()

    def all(self) -> None:
        while self._waiting:
            self._one()

    def _one(self) -> None:
        step, metrics, tokens = self._waiting.pop(0)
        values = {name: float(value) for name, value in metrics.items()}
        for name in ("loss", "grad_norm"):  # a gradient that is no number spoils the update
            if not math.isfinite(values[name]):
                raise GraftError(
                    f"{self._stage.name}: the {name} of step {step} is {values[name]}; lower "
                    f"--{self._stage.name}.optimizer.lora-rate or .rows-rate and give "
                    "another --run"
                )
        now = time.perf_counter()
        rate = tokens / (now - self._clock)
        self._clock = now
        self._records.write(
            {
                "step": self._offset + step,
                "stage": self._stage.name,
                "stage_step": step,
                **values,
                "tokens": tokens,
                "tokens_per_second": round(rate, 1),
            }
        )
        self._progress.step(self._stage.name, step, self._stage.steps, values["loss"], rate)


class _signals:
    """While entered, SIGTERM and SIGINT are noted instead of ending the process; the loop asks."""

    def __enter__(self) -> Callable[[], bool]:
        self._asked = False
        self._before = {
            number: signal.signal(number, self._note) for number in (signal.SIGTERM, signal.SIGINT)
        }
        return lambda: self._asked

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._asked:  # asked twice: at once
            raise KeyboardInterrupt
        self._asked = True

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
