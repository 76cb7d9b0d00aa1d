"""Trains a planner: `python launch/train.py --config configs/smollm2_135m.py --sft.epochs 2`.

The same command continues a run that was stopped or killed. Any setting of the config is a flag:
`--help` lists them.
"""

import argparse
import os
import sys
from pathlib import Path

from graft_jax.errors import GraftError, run_cli

# Whose values --help shows.
EXAMPLE = Path(__file__).resolve().parent.parent / "configs" / "quickstart.py"


def main() -> int:
    """Reads the flags, trains, and says where the planner is."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], add_help=False)
    parser.add_argument("--config", help="a Python file that sets `config`")
    arguments, overrides = parser.parse_known_args()
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", ".cache/jax")
    from graft_jax.config import load_config
    from graft_jax.training.loop import Stopped
    from graft_jax.training.train import train

    if arguments.config is None and not {"-h", "--help"} & set(overrides):
        raise GraftError("--config is missing; give a file of configs/")
    config = load_config(arguments.config or EXAMPLE, overrides)
    try:
        train(config)
    except Stopped:
        print("stopped; the same command continues this run", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    run_cli(main)
