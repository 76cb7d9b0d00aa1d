"""Scores a planner: `python launch/evaluate.py --planner runs/quickstart --split test`.

Writes predictions and scores into the planner's folder, and its report.md.
"""

import argparse
import os

from graft_jax.errors import run_cli


def main() -> None:
    """Reads the flags, evaluates, prints the headline figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--planner", required=True, help="folder of a finished training run")
    parser.add_argument("--split", default="test", help="train, validation or test")
    parser.add_argument("--constrain", choices=("graph", "tools", "off"), default="graph")
    parser.add_argument("--data", help="folder of the planner's data, if it has moved")
    parser.add_argument("--backbone", help="folder of the backbone, if it has moved")
    parser.add_argument("--single", type=int, default=32, help="requests timed one at a time")
    parser.add_argument("--store", metavar="FILE", help="also write the small form, for results/")
    arguments = parser.parse_args()
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", ".cache/jax")
    from graft_jax.evaluation.evaluate import evaluate
    from graft_jax.evaluation.tables import results_table

    path = evaluate(
        arguments.planner,
        arguments.split,
        arguments.constrain,
        arguments.data,
        arguments.backbone,
        arguments.single,
        small_copy=arguments.store,
    )
    print(results_table([path, path.with_name(f"{arguments.split}-knn.json")]))
    print(f"report: {path.parent.parent / 'report.md'}")


if __name__ == "__main__":
    run_cli(main)
