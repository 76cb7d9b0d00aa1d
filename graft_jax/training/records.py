"""What a run writes as it goes: metrics.jsonl, its TensorBoard copy, and lines for who watches.

One JSON object a line: a step's metrics, a validation, or a stage's report. After a kill the lines
beyond the restored step are dropped and written anew, so there are neither gaps nor doubles.
"""

import contextlib
import json
import math
import shutil
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from tensorboardX import SummaryWriter

from graft_jax.io.files import naming, write_text
from graft_jax.io.metrics_file import METRICS, read_metrics
from graft_jax.shapes import is_number

TENSORBOARD = "tensorboard"
_EVERY_SECONDS = 10.0


class Records:
    """The metrics of one run. `step` is the global step restored: what comes after it is dropped,
    and so is the report with which the next stage began (its `stage_step` is 0).
    """

    def __init__(self, run: Path, step: int) -> None:
        path = run / METRICS
        kept = [record for record in read_metrics(path) if _is_before(record, step)]
        write_text(path, "".join(map(_line, kept)))
        # Event files cannot be cut, so they are made again from the lines that stand.
        shutil.rmtree(run / TENSORBOARD, ignore_errors=True)
        self._events = SummaryWriter(str(run / TENSORBOARD))
        for record in kept:
            self._to_events(record)
        self._path = path
        self._file = path.open("a", encoding="utf-8")

    def write(self, record: dict[str, Any]) -> None:
        """Appends a record with its global `step` and its `stage`; not-a-number becomes null."""
        with naming(self._path):
            self._file.write(_line(record))
            self._file.flush()
        self._to_events(record)

    def close(self) -> None:
        """Closes both files."""
        with naming(self._path), contextlib.closing(self._events):
            self._file.close()

    def _to_events(self, record: dict[str, Any]) -> None:
        for name, value in record.items():
            if name in ("step", "stage", "stage_step"):
                continue
            values = value if isinstance(value, dict) else {"": value}
            for key, number in values.items():
                if is_number(number):
                    tag = "/".join(filter(None, (record["stage"], name, key)))
                    self._events.add_scalar(tag, number, record["step"])


def _is_before(record: dict[str, Any], step: int) -> bool:
    return record["step"] < step or (record["step"] == step and record.get("stage_step") != 0)


def _line(record: dict[str, Any]) -> str:
    return json.dumps(_finite(record)) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class Progress:
    """A line every ten seconds: stage, step, loss, tokens a second, time left in the stage."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said = 0.0
        self._started = 0.0
        self._first = 0

    def start(self, stage: str, step: int, steps: int) -> None:
        """A stage begins, or goes on at `step`."""
        self._said = self._started = time.monotonic()
        self._first = step
        self.say(f"{stage}: step {step} of {steps}")

    def step(
        self, stage: str, step: int, steps: int, loss: float, tokens_per_second: float
    ) -> None:
        """Says where the stage is, if it has not done so for a while or has ended."""
        now = time.monotonic()
        if now - self._said < _EVERY_SECONDS and step < steps:
            return
        self._said = now
        left = (now - self._started) / max(step - self._first, 1) * (steps - step)
        self.say(
            f"{stage}: step {step}/{steps}  loss {loss:.4f}  {tokens_per_second:.0f} tokens/s  "
            f"{left / 60:.1f} min left"
        )

    def say(self, text: str) -> None:
        """A line as it stands: what looks like markup in a path is no markup."""
        self._console.out(text, highlight=False)
