"""A training run from a config to a planner folder. Sections in the order in which they run."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from graft_jax._version import __version__
from graft_jax.catalog.catalog import Catalog, load_catalog
from graft_jax.catalog.graph import capacity, hold_out_edges
from graft_jax.catalog.names import text_of
from graft_jax.config import Config, to_json
from graft_jax.data.examples import CATALOG_FILE, data_hash, load_splits
from graft_jax.data.prompts import Prompts, templates
from graft_jax.decoding.masks import make_index
from graft_jax.errors import GraftError
from graft_jax.io.checkpoint import Checkpoints
from graft_jax.io.files import locked, read_json, write_json
from graft_jax.io.huggingface import content_hash, load_base, read_spec
from graft_jax.io.planner_folder import PLANNER, load_planner_folder, save_planner
from graft_jax.io.tokenizer import encode_text, ending_plans, entries, load_tokenizer
from graft_jax.models.adapter import Adapter, flatten_adapter, init_adapter
from graft_jax.models.passes import with_adapter
from graft_jax.sharding import base_sharding, make_mesh
from graft_jax.training.diagnostics import edge_report, successor_scores, teacher_report
from graft_jax.training.loop import Hooks, check_fingerprint, run_stages
from graft_jax.training.records import Progress, Records
from graft_jax.training.stages import Task, make_prepare, make_stages
from graft_jax.training.validation import greedy_plans, score_plans

CHECKPOINTS, REPORTS = "checkpoints", "reports"
# Settings that a run may be continued with other values of: where things lie, and how much at once.
_FREE = ("run", "data", "backbone", "checkpoints", "mesh", "positions_at_once")


def train(config: Config, console: Console | None = None) -> Path:
    """Trains a planner, or continues a run that was stopped or killed, and returns its folder.

    The run folder holds the planner (planner.json, catalog.json, adapter.safetensors, tokenizer/),
    metrics.jsonl, tensorboard/, reports/ and checkpoints/. A run that has ended is left as it is.

    Raises:
      GraftError: bad data, backbone or settings, a folder that holds another run, or a loss that is
        not a number.
      graft_jax.training.loop.Stopped: a signal asked for it; the same call continues.
    """
    progress = Progress(console or Console())
    run = Path(config.run)

    # What is to be trained on, and its fingerprint.
    catalog = load_catalog(Path(config.data) / CATALOG_FILE)
    splits = load_splits(config.data, catalog)
    spec = read_spec(config.backbone)
    fingerprint = {
        "config": {key: value for key, value in to_json(config).items() if key not in _FREE},
        "data": data_hash(config.data),
        "backbone": content_hash(config.backbone),
    }
    if _has_ended(run, fingerprint, progress):
        return run

    # The frozen side: mesh, base, tokenizer, prompts.
    mesh = make_mesh(**dataclasses.asdict(config.mesh))
    tokenizer = load_tokenizer(config.backbone)
    spec = ending_plans(spec, tokenizer)
    base = load_base(
        config.backbone,
        spec,
        jnp.dtype(config.dtype),
        None if mesh.size == 1 else lambda path, shape: base_sharding(mesh, str(path[-1]), shape),
    )
    rows = capacity(len(catalog))
    train_rows = [*splits["train"], *(splits["validation"] if config.train_on_validation else [])]
    task = Task(
        catalog=catalog,
        train=train_rows,
        prompts=Prompts(tokenizer, spec.vocab_size, config.max_query_tokens, spec.max_positions),
        spec=spec,
        index=make_index(catalog, rows),
        words=entries(tokenizer),
    )
    stages = make_stages(config, task, mesh)
    if not stages:
        raise GraftError("every stage is switched off; enable one, such as --sft.enabled")
    if config.train_on_validation:
        stages = [dataclasses.replace(stage, validated=False) for stage in stages]

    # The trained side: from scratch, or from another planner.
    token_ids = [encode_text(tokenizer, text_of(tool)) for tool in catalog.tools]
    adapter = init_adapter(
        jax.random.key(config.seed),
        base,
        spec,
        token_ids,
        rows,
        rank=config.lora.rank,
        alpha=config.lora.alpha,
        targets=config.lora.targets,
        projection=config.edges.projection,
    )
    if config.start_from:
        adapter = _start_from(config, catalog, adapter)

    # What is measured on the way.
    held = splits["validation"][: config.validation.rows]
    prompts = [task.prompts.student(example.query).ids for example in held]
    prepare = make_prepare(config, task, mesh)

    def validate(adapter: Adapter) -> dict[str, float]:
        params = with_adapter(base, adapter)
        plans, _ = greedy_plans(params, task.index, spec, catalog, prompts, task.longest + 1)
        return score_plans(plans, held, catalog)

    def edges(adapter: Adapter) -> dict[str, Any]:
        _, held_out = hold_out_edges(catalog, config.edges.hold_out, config.seed)
        scores = successor_scores(adapter, base, task, config.edges.temperature)
        return edge_report(scores, catalog.successors, held_out)

    def report(stage: str, moment: str, adapter: Adapter) -> dict[str, Any] | None:
        if stage == "edges":
            found = edges(adapter)
            name = "edges" if moment == "end" else "edges_before"
        elif stage == "distill" and moment == "start":
            size = config.distill.batch_size
            found = {
                "examples_were_trained_on": config.train_on_validation,
                **teacher_report(adapter, base, task, held, prepare, mesh, size),
            }
            name = "teacher"
        else:
            return None
        write_json(run / REPORTS / f"{name}.json", found)
        progress.say(f"{name}: {found}")
        return {name: found}

    # The run itself.
    with locked(run), Checkpoints(run / CHECKPOINTS, config.checkpoints.keep) as checkpoints:
        if _has_ended(run, fingerprint, progress):  # another process, while this one waited
            return run
        adapter, scores = run_stages(
            stages,
            adapter,
            base,
            mesh,
            checkpoints,
            lambda step: Records(run, step),
            Hooks(
                validate,
                lambda stage, adapter: report(stage, "start", adapter),
                lambda stage, adapter: report(stage, "end", adapter),
            ),
            progress,
            config.checkpoints.every,
            config.validation.every,
            config.positions_at_once,
            fingerprint,
        )
        if jax.process_index() == 0:
            card = _card(config, task, fingerprint)
            card["scores"] = scores and {"validation": {**scores, "rows": len(held)}}
            save_planner(run, adapter, catalog, config.backbone, card)
    progress.say(f"{run}: the planner is written")
    return run


def _has_ended(run: Path, fingerprint: dict[str, Any], progress: Progress) -> bool:
    """Whether the run's planner is there already; refuses another run's."""
    if not (run / PLANNER).is_file():
        return False
    card = read_json(run / PLANNER)
    if not isinstance(card, dict) or not isinstance(card.get("fingerprint"), dict):
        raise GraftError(f"{run / PLANNER}: is not a planner's card; give another --run")
    check_fingerprint(card["fingerprint"], fingerprint)
    progress.say(f"{run}: this run has ended; its planner is there")
    return True


def _start_from(config: Config, catalog: Catalog, fresh: Adapter) -> Adapter:
    """The adapter of another planner over the same catalog and backbone."""
    stored = load_planner_folder(config.start_from, config.backbone)
    if stored.catalog.content_hash() != catalog.content_hash():
        raise GraftError(
            f"{config.start_from}: was trained on another catalog than {config.data}; start from a "
            "planner of the same catalog"
        )
    kinds = [
        (tree.lora.scale, {k: v.shape for k, v in flatten_adapter(tree).items()})
        for tree in (stored.adapter, fresh)
    ]
    if kinds[0] != kinds[1]:
        raise GraftError(
            f"{config.start_from}: has another LoRA (rank, alpha, targets) or projection than this "
            "config; give the same --lora and --edges.projection"
        )
    return stored.adapter


def _card(config: Config, task: Task, fingerprint: dict[str, Any]) -> dict[str, Any]:
    """What planner.json says of a trained planner."""
    return {
        "version": __version__,
        "fingerprint": fingerprint,
        "data_hash": fingerprint["data"],
        "config": to_json(config),
        "spec": dataclasses.asdict(task.spec),
        "prompts": templates(),
        "max_query_tokens": config.max_query_tokens,
        "longest_plan": task.longest,
        "capacity": task.index.capacity,
        "lora": dataclasses.asdict(config.lora),
        "versions": {"jax": jax.__version__, "numpy": np.__version__},
    }
