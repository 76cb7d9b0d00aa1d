"""Prints the table of the stored results, and keeps the one in the README up to date.

    python launch/results.py results/*.json
    python launch/results.py --readme README.md results/*.json            # rewrite its table
    python launch/results.py --readme README.md --check results/*.json    # exit 1 if it is stale
    python launch/results.py --paired results/a.json results/b.json       # a minus b, by request

JSON files that are no score files (timings, say) are left out, and named.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a script, not installed

from graft_jax.errors import GraftError, run_cli
from graft_jax.evaluation.score_files import is_score_file, read_scores
from graft_jax.evaluation.scores import compare
from graft_jax.evaluation.tables import paired_table, replace_block, results_table
from graft_jax.io.files import read_json, read_text, write_text


def main() -> int:
    """Returns 1 where --check finds the README stale, else 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="+", type=Path, help="score files, in the table's order")
    parser.add_argument("--readme", type=Path, help="file with the markers of the results table")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if stale")
    parser.add_argument(
        "--paired", action="store_true", help="compare two files, request by request"
    )
    args = parser.parse_args()
    if args.check and args.readme is None:
        raise GraftError("--check needs --readme: name the file whose table is to be checked")
    if args.paired:
        if len(args.paths) != 2 or args.readme is not None:
            raise GraftError("--paired takes two score files and nothing else")
        first, second = (read_scores(path)["scores"] for path in args.paths)
        print(paired_table(compare(first, second)), end="")
        return 0

    found = [path for path in args.paths if is_score_file(read_json(path))]
    for path in (path for path in args.paths if path not in found):
        print(f"{path}: no score file, left out", file=sys.stderr)
    if not found:
        raise GraftError("none of the files is a score file; make one with launch/evaluate.py")
    table = results_table(found)
    if args.readme is None:
        print(table, end="")
        return 0

    old = read_text(args.readme)
    try:
        new = replace_block(old, table)
    except GraftError as error:
        raise GraftError(f"{args.readme}: {error}") from None
    if args.check:
        print(f"{args.readme}: {'up to date' if new == old else 'stale: run without --check'}")
        return int(new != old)
    if new != old:
        write_text(args.readme, new)
    print(f"{args.readme}: {'updated' if new != old else 'already up to date'}")
    return 0


if __name__ == "__main__":
    run_cli(main)
