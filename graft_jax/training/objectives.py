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
from graft_jax.training.step import Loss


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


def token_objective(
    spec: ModelSpec, words: int, valid: jax.Array, restricted: bool, remat_above: int
) -> Loss:
    """Grounding and SFT (Eqs. 5, 9): the token mean at label positions.

    Over V' = vocabulary and tools, or over tools and end alone with `restricted`. `words` is the
    number of real vocabulary entries, `valid` bool [M]. A batch of more positions than
    `remat_above` keeps little for its backward pass and computes blocks again (so in all losses).
    """

    def loss(
        adapter: Adapter, base: dict[str, Any], batch: TokenBatch
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        params = with_adapter(base, adapter)
        hidden, _ = sequence_pass(
            params,
            spec,
            batch.tokens,
            batch.positions,
            batch.segments,
            remat=batch.tokens.size > remat_above,
        )
        hidden = jnp.take_along_axis(hidden, batch.label_pos[..., None], axis=1)
        if restricted:
            logits = restricted_logits(base, adapter.tools, hidden, spec.end_id, valid)
            labels = jnp.maximum(batch.labels - spec.vocab_size + 1, 0)
        else:
            logits = full_logits(base, adapter.tools, hidden, words, valid)
            labels = batch.labels
        total, count = token_loss(logits, labels, batch.label_mask)
        right = (jnp.argmax(logits, axis=-1) == labels) * batch.label_mask
        return total / count, {"token_accuracy": jnp.sum(right) / count}

    return loss


def edge_objective(spec: ModelSpec, temperature: float, remat_above: int) -> Loss:
    """Edge reconstruction (Eqs. 7, 8), averaged over paths."""

    def loss(
        adapter: Adapter, base: dict[str, Any], batch: PathBatch
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        _, penultimate = sequence_pass(
            with_adapter(base, adapter),
            spec,
            batch.tokens,
            batch.positions,
            batch.segments,
            remat=batch.tokens.size > remat_above,
        )
        scores = edge_scores(
            penultimate[:, 1:],
            adapter.tools.embed,
            adapter.edges.hidden,
            adapter.edges.row,
            temperature,
        )
        total, count = edge_loss(scores, batch.candidates, batch.positive, batch.present)
        return total / jnp.maximum(count, 1.0), {}

    return loss


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


def distill_objective(
    spec: ModelSpec, words: int, valid: jax.Array, weight: float, remat_above: int
) -> Loss:
    """Distillation (Eqs. 12, 13): L_sft of the gold plan + λ L_opd of the student's own rollouts.

    Gold plan and rollouts continue one pass over the prompt. L_sft is over the full vocabulary, as
    in SFT; L_opd over tools and end-of-plan.
    """

    def loss(
        adapter: Adapter, base: dict[str, Any], inputs: DistillInputs
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        params = with_adapter(base, adapter)
        gold_steps = inputs.gold.shape[1]
        steps = max(gold_steps, inputs.rollouts.shape[-1])

        def widen(plans: jax.Array) -> jax.Array:
            return jnp.pad(plans, ((0, 0), (0, 0), (0, steps - plans.shape[-1])))

        plans = jnp.concatenate([widen(inputs.gold[:, None]), widen(inputs.rollouts)], axis=1)
        read = entry_tokens(plans[..., :-1], spec.end_id, spec.vocab_size)
        remat = inputs.student.ids.size + read.size > remat_above
        hidden = branch_pass(params, spec, inputs.student.ids, inputs.student.lengths, read, remat)
        gold_hidden = hidden[:, 0, :gold_steps]
        labels = entry_tokens(inputs.gold, spec.end_id, spec.vocab_size)
        logits = full_logits(base, adapter.tools, gold_hidden, words, valid)
        total, count = token_loss(logits, labels, inputs.gold_mask)
        own = hidden[:, 1:, : inputs.rollouts.shape[-1]]
        student = restricted_logits(base, adapter.tools, own, spec.end_id, valid)
        kl_sum, kl_count = reverse_kl(student, inputs.teacher_logits, inputs.rollout_mask)
        sft, kl = total / count, kl_sum / kl_count
        metrics = {"sft": sft, "kl": kl, **rollout_metrics(inputs)}
        return combined_loss(sft, kl, weight), metrics

    return loss


def rollout_metrics(inputs: DistillInputs) -> dict[str, jax.Array]:
    """How the student's plans and the teacher's advice compare with the gold plan.

    rollout_em: share of sampled plans that are the gold plan. teacher_em: share of rollouts along
    which the teacher's first choice is right at every step up to and including the first mistake
    (or to the end). teacher_corrects: among rollouts with a mistake, the share at whose first
    mistake the teacher's first choice is the gold entry; nan where there is none.
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
    corrected = (first & advice).any(axis=-1)
    return {
        "rollout_em": jnp.mean(~mistaken),
        "teacher_em": jnp.mean(jnp.all(advice | ~reached, axis=-1)),
        "teacher_corrects": jnp.sum(corrected) / jnp.sum(mistaken),
    }
