"""Training checkpoints through Orbax: whole or not there, so that a killed run finds its last step.

The only file that imports Orbax. Knows trees and JSON, nothing of stages.
"""

from pathlib import Path
from typing import Any

import orbax.checkpoint as ocp

from graft_jax.errors import GraftError


class Checkpoints:
    """The checkpoints of one run, by global step. A context: leaving it waits for writes."""

    def __init__(self, folder: str | Path, keep: int) -> None:
        self._folder = Path(folder).absolute()
        self._manager = ocp.CheckpointManager(
            self._folder,
            options=ocp.CheckpointManagerOptions(
                max_to_keep=keep, enable_async_checkpointing=False, create=True
            ),
        )

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *_: object) -> None:
        self._manager.close()

    def save(self, step: int, state: Any, notes: dict[str, Any]) -> None:
        """Writes `state` (a pytree of arrays) and `notes` (plain values) of a step."""
        self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(state), notes=ocp.args.JsonSave(notes)
            ),
            force=True,
        )

    def latest(self) -> int | None:
        """The newest whole checkpoint's step; None where there is none."""
        return self._manager.latest_step()

    def notes(self, step: int) -> dict[str, Any]:
        """What was noted with a checkpoint.

        Raises:
          GraftError: the checkpoint cannot be read.
        """
        return self._read(step, notes=ocp.args.JsonRestore())["notes"]

    def restore(self, step: int, like: Any) -> Any:
        """The state of a checkpoint, with the structure, dtypes and shardings of `like`.

        Raises:
          GraftError: the checkpoint cannot be read, or holds another structure.
        """
        return self._read(step, state=ocp.args.StandardRestore(like))["state"]

    def _read(self, step: int, **args: Any) -> Any:
        try:
            return self._manager.restore(step, args=ocp.args.Composite(**args))
        except Exception as error:  # Orbax raises many kinds for damaged or foreign files
            raise GraftError(
                f"{self._folder / str(step)}: the checkpoint cannot be restored ({error}); delete "
                "that folder to continue from the one before it"
            ) from error
