"""A tiny run in a process of its own, ended from inside at a chosen point; not a test itself.

Arguments: run folder, data, backbone, point, count. Points: "end" (run through), "record" (SIGKILL
at that many metrics records), "rename" (SIGKILL at that many renames, which is where files and
checkpoints take their final names), "ask" (SIGTERM after that many records).
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def tiny_config(run: str, data: str, backbone: str, **changes: Any) -> Any:
    """All four stages, a few steps each, checkpoints and validations between them."""
    from graft_jax import config

    fast = config.Optimizer(lora_rate=2e-2, rows_rate=2e-2)
    settings: dict[str, Any] = {
        "run": run,
        "data": data,
        "backbone": backbone,
        "dtype": "float32",
        "lora": config.Lora(rank=2, alpha=6.0),
        "grounding": config.Grounding(epochs=0.5, batch_size=8, optimizer=fast),
        "edges": config.Edges(
            steps=4, batch_size=8, negatives=2, projection=8, hold_out=0.2, optimizer=fast
        ),
        "sft": config.Sft(epochs=2, batch_size=8, word_dropout=0.2, optimizer=fast),
        "distill": config.Distill(epochs=2, batch_size=8, word_dropout=0.2, optimizer=fast),
        "validation": config.Validation(every=3, rows=4),
        "checkpoints": config.Checkpoints(every=2),
        "mesh": config.Mesh(data=1),
    }
    return config.Config(**(settings | changes))


def main() -> int:
    run, data, backbone, point, count = sys.argv[1:]
    from graft_jax.training import train as training
    from graft_jax.training.loop import Stopped
    from graft_jax.training.records import Records

    left = int(count)

    def counted(function: Callable[..., Any], number: int) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), number)
            return function(*arguments, **options)

        return call

    if point == "record":
        Records.write = counted(Records.write, signal.SIGKILL)  # type: ignore[method-assign]
    elif point == "ask":
        Records.write = counted(Records.write, signal.SIGTERM)  # type: ignore[method-assign]
    elif point == "rename":
        for name in ("rename", "replace"):
            setattr(os, name, counted(getattr(os, name), signal.SIGKILL))
            setattr(Path, name, counted(getattr(Path, name), signal.SIGKILL))
    try:
        training.train(tiny_config(run, data, backbone))
    except Stopped:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
