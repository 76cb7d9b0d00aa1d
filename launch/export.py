"""Exports a planner: `python launch/export.py --planner runs/x --to hf --out exported/x`.

`--to hf` writes a Hugging Face folder with merged weights and the tools as tokens; its README.md
says how transformers plans with it. The folder appears whole or not at all.
"""

import argparse
import os
from pathlib import Path

from graft_jax.errors import run_cli


def main() -> None:
    """Reads the flags, exports, and says what is where."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--planner", type=Path, required=True, help="folder of a finished run")
    parser.add_argument("--to", required=True, help="the format: hf")
    parser.add_argument("--out", type=Path, required=True, help="the folder to make")
    parser.add_argument("--backbone", type=Path, help="folder of the backbone, if it has moved")
    parser.add_argument(
        "--dtype", default="keep", help="of the weights: keep (the backbone's), bfloat16 or float32"
    )
    options = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # nothing is computed on an accelerator here
    from graft_jax.io.export import export

    layout = export(options.planner, options.to, options.out, options.backbone, options.dtype)
    size = sum(path.stat().st_size for path in options.out.glob("*.safetensors"))
    ids = layout.tool_ids
    print(
        f"{options.out}: {len(ids)} tools as ids {ids.start} to {ids.stop - 1}, embedding of "
        f"{layout.rows} rows, weights of {size / 1e6:,.0f} MB; see README.md there"
    )


if __name__ == "__main__":
    run_cli(main)
