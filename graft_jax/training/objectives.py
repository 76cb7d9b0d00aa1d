"""The loss of each stage, from a batch to a scalar: passes, logits and objectives put together."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from graft_jax.data.batches import PathBatch, PromptBatch, TokenBatch
from graft_jax.losses.distill import combined_loss, reverse_kl
from graft_jax.losses.edges import edge_loss, edge_scores
from graft_jax.losses.sft import token_loss
from graft_jax.models.adapter import Adapter, Params
from graft_jax.models.passes import branch_pass, sequence_pass, with_adapter
from graft_jax.models.spec import ModelSpec
from graft_jax.models.tool_tokens import entry_tokens, full_logits, restricted_logits
from graft_jax.training.step import Counts, Metrics, Objective


@struct.dataclass
class DistillInputs:
    """A distillation step's inputs once the rollouts are made and scored by the teacher.

    student: prompts; gold int [B, S] and its mask: plans in the restricted space; rollouts int
    [B, C, S'] and mask; teacher_logits float32 [B, C, S', M + 1].
    """

    student: PromptBatch
    gold: jax.Array
    gold_mask: jax.Array
    rollouts: jax.Array
    rollout_mask: jax.Array
    teacher_logits: jax.Array


def token_objective(spec: ModelSpec, words: int, valid: jax.Array, restricted: bool) -> Objective:
    """Grounding and SFT (Eqs. 5, 9): the token mean at label positions of a TokenBatch.

    Over V' = vocabulary and tools, or over tools and end alone with `restricted`. `words` is the
    number of real vocabulary entries, `valid` bool [M].
    """

    def loss(
        adapter: Adapter, base: dict[str, Any], batch: TokenBatch, counts: Counts
    ) -> tuple[jax.Array, Metrics]:
        hidden, _ = sequence_pass(
            with_adapter(base, adapter), spec, batch.tokens, batch.positions, batch.segments
        )
        hidden = jnp.take_along_axis(hidden, batch.label_pos[..., None], axis=1)
        if restricted:
            logits = restricted_logits(base, adapter.tools, hidden, spec.end_id, valid)
            labels = jnp.maximum(batch.labels - spec.vocab_size + 1, 0)
        else:
            logits = full_logits(base, adapter.tools, hidden, words, valid)
            labels = batch.labels
        total, count = token_loss(logits, labels, batch.label_mask)
        right = jnp.sum((jnp.argmax(logits, axis=-1) == labels) * batch.label_mask)
        return total / counts["labels"], {"token_accuracy": (right, count)}

    return Objective(
        counts=lambda batch: {"labels": jnp.sum(batch.label_mask)},
        loss=loss,
        positions=lambda batch: batch.tokens.size,
    )


def edge_objective(spec: ModelSpec, temperature: float) -> Objective:
    """Edge reconstruction (Eqs. 7, 8), averaged over the paths of a PathBatch."""

    def loss(
        adapter: Adapter, base: dict[str, Any], batch: PathBatch, counts: Counts
    ) -> tuple[jax.Array, Metrics]:
        _, penultimate = sequence_pass(
            with_adapter(base, adapter), spec, batch.tokens, batch.positions, batch.segments
        )
        scores = edge_scores(
            penultimate[:, 1:],
            adapter.tools.embed,
            adapter.edges.hidden,
            adapter.edges.row,
            temperature,
        )
        total, _ = edge_loss(scores, batch.candidates, batch.positive, batch.present)
        return total / jnp.maximum(counts["paths"], 1.0), {}

    return Objective(
        counts=lambda batch: {"paths": jnp.sum(batch.positive.any(axis=(1, 2)))},
        loss=loss,
        positions=lambda batch: batch.tokens.size,
    )


def plan_logits(
    params: Params,
    spec: ModelSpec,
    prompts: PromptBatch,
    plans: jax.Array,
    valid: jax.Array,
) -> jax.Array:
    """Restricted logits of every step of given plans: float32 [B, C, S, M + 1].

    plans int [B, C, S] in the restricted space; step s has read the first s entries. Rows stay
    aligned by (row, continuation, step), whatever the prompts' lengths.
    """
    read = entry_tokens(plans[..., :-1], spec.end_id, spec.vocab_size)
    hidden = branch_pass(params, spec, prompts.ids, prompts.lengths, read)
    return restricted_logits(params.base, params.tools, hidden, spec.end_id, valid)


def distill_objective(spec: ModelSpec, words: int, valid: jax.Array, weight: float) -> Objective:
    """Distillation (Eqs. 12, 13): L_sft of the gold plan + λ L_opd of the student's own rollouts.

    Gold plan and rollouts continue one pass over the prompt of DistillInputs. L_sft is over the
    full vocabulary, as in SFT; L_opd over tools and end-of-plan.
    """

    def continuations(inputs: DistillInputs) -> jax.Array:
        """Gold plan and rollouts, [B, 1 + C, S]."""
        plans = (inputs.gold[:, None], inputs.rollouts)
        steps = max(plan.shape[-1] for plan in plans)
        wide = [jnp.pad(plan, ((0, 0), (0, 0), (0, steps - plan.shape[-1]))) for plan in plans]
        return jnp.concatenate(wide, axis=1)

    def loss(
        adapter: Adapter, base: dict[str, Any], inputs: DistillInputs, counts: Counts
    ) -> tuple[jax.Array, Metrics]:
        read = entry_tokens(continuations(inputs)[..., :-1], spec.end_id, spec.vocab_size)
        hidden = branch_pass(
            with_adapter(base, adapter), spec, inputs.student.ids, inputs.student.lengths, read
        )
        gold_hidden = hidden[:, 0, : inputs.gold.shape[1]]
        labels = entry_tokens(inputs.gold, spec.end_id, spec.vocab_size)
        logits = full_logits(base, adapter.tools, gold_hidden, words, valid)
        sft, sft_count = token_loss(logits, labels, inputs.gold_mask)
        own = hidden[:, 1:, : inputs.rollouts.shape[-1]]
        student = restricted_logits(base, adapter.tools, own, spec.end_id, valid)
        kl, kl_count = reverse_kl(student, inputs.teacher_logits, inputs.rollout_mask)
        value = combined_loss(sft / counts["labels"], kl / counts["rollouts"], weight)
        return value, {
            "sft": (sft, sft_count),
            "kl": (kl, kl_count),
            **rollout_metrics(inputs),
        }

    return Objective(
        counts=lambda inputs: {
            "labels": jnp.sum(inputs.gold_mask),
            "rollouts": jnp.sum(inputs.rollout_mask.any(axis=-1)),
        },
        loss=loss,
        positions=lambda inputs: inputs.student.ids.size + continuations(inputs).size,
    )


def rollout_metrics(inputs: DistillInputs) -> Metrics:
    """How the student's plans and the teacher's advice compare with the gold plan: (sum, count).

    rollout_em: sampled plans that are the gold plan, of all. teacher_em: rollouts along which the
    teacher's first choice is right at every step up to and including the first mistake (or to the
    end), of all. teacher_corrects: rollouts at whose first mistake the teacher's first choice is
    the gold entry, of those with a mistake.
    """
    steps = inputs.rollouts.shape[-1]
    gold = inputs.gold[:, :steps]
    gold = jnp.pad(gold, ((0, 0), (0, steps - gold.shape[1])))[:, None]
    mask = inputs.rollout_mask
    wrong = (inputs.rollouts != gold) & mask
    before = jnp.cumsum(wrong, axis=-1) - wrong
    reached = mask & (before == 0)  # on the gold path up to here
    advice = jnp.argmax(inputs.teacher_logits, axis=-1) == gold
    first = wrong & reached
    mistaken = first.any(axis=-1)
    right = jnp.all(advice | ~reached, axis=-1)
    corrected = (first & advice).any(axis=-1)
    rollouts = jnp.asarray(mistaken.size)
    return {
        "rollout_em": (jnp.sum(~mistaken), rollouts),
        "teacher_em": (jnp.sum(right), rollouts),
        "teacher_corrects": (jnp.sum(corrected), jnp.sum(mistaken)),
    }
