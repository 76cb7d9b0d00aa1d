"""Plans requests: `python launch/plan.py --planner runs/quickstart "Cancel my 8 am alarm"`.

Without a request on the command line, every line of standard input is one.
"""

import argparse
import io
import json
import os
import sys

from graft_jax.errors import GraftError, run_cli


def main() -> None:
    """Reads the flags and prints a plan a request."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("query", nargs="*", help="requests; none: lines of standard input")
    parser.add_argument("--planner", required=True, help="folder of a finished training run")
    parser.add_argument("--backbone", help="folder of the backbone, if it has moved")
    parser.add_argument("--constrain", choices=("graph", "tools", "off"), default="graph")
    parser.add_argument("--n-best", type=int, help="that many plans, by beam search")
    parser.add_argument(
        "--allow", action="append", metavar="TOOL", help="only this tool; repeat it for several"
    )
    parser.add_argument(
        "--deny", action="append", metavar="TOOL", default=[], help="not this tool; likewise"
    )
    parser.add_argument("--min-steps", type=int, default=1)
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--json", action="store_true", help="one JSON object a plan")
    arguments = parser.parse_intermixed_args()
    queries = arguments.query or _standard_input()
    if not queries:
        raise GraftError("no request: give one in quotes, or lines on standard input")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", ".cache/jax")
    import graft_jax

    planner = graft_jax.load(arguments.planner, arguments.backbone)
    plans = graft_jax.plan(
        planner,
        queries,
        constrain=arguments.constrain,
        n_best=arguments.n_best,
        allow=arguments.allow,
        deny=arguments.deny,
        min_steps=arguments.min_steps,
        max_steps=arguments.max_steps,
    )
    for found in plans:
        best = found if isinstance(found, list) else [found]
        if not arguments.json and len(queries) > 1:
            print(best[0].query)
        for one in best:
            if arguments.json:
                print(json.dumps(one.to_json()))  # in ASCII: right in every encoding
                continue
            print(one)
            for step in one.steps:
                others = ", ".join(
                    f"{name or '(end)'} {chance:.2f}" for name, chance in step.runners_up
                )
                print(
                    f"  {step.probability:.3f}  {step.tool}"
                    + (f"   not {others}" if others else "")
                )


def _standard_input() -> list[str]:
    """Its lines that are not blank, whatever the locale says of their encoding."""
    if sys.stdin is None:  # closed
        return []
    if sys.stdin.isatty():
        print("reading requests from standard input, one a line", file=sys.stderr)
    with io.TextIOWrapper(sys.stdin.buffer, "utf-8-sig", "replace") as lines:
        return [line.strip() for line in lines if line.strip()]


if __name__ == "__main__":
    run_cli(main)
