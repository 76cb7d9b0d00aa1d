"""From prompts to plans: beam search (greedy is one beam) and sampled rollouts, over one loop.

Every plan is a row of restricted-space entries: tools as i + 1, then 0 (end-of-plan) to the end.
Log-probabilities are normalised over the restricted space before any mask, and what a mask forbids
becomes -inf without renormalising: a plan's probability is the same under every constraint that
allows it.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from graft_jax.decoding.masks import Index, allowed_entries, unpack
from graft_jax.models.adapter import Params
from graft_jax.models.passes import Cache, prompt_pass, step_pass
from graft_jax.models.spec import ModelSpec
from graft_jax.models.tool_tokens import entry_tokens, full_logits, restricted_logits

RUNNERS_UP = 4


@struct.dataclass
class Limits:
    """What a request may contain, as data: another list or length compiles nothing.

    allowed: uint32 [B, M / 32]; reach: uint32 [S, M / 32], tools from which the shortest plan that
    may end can still be completed, by step; follow_graph: bool scalar; min_steps, max_steps: int
    scalars, max_steps < S.
    """

    allowed: jax.Array
    reach: jax.Array
    follow_graph: jax.Array
    min_steps: jax.Array
    max_steps: jax.Array


@struct.dataclass
class Decoded:
    """Plans found: C for each prompt, best first. S steps at most, end-of-plan included.

    entries int [B, C, S]; log_probs float32 [B, C] of the whole plan (-inf: no such plan);
    step_log_probs float32 [B, C, S] of the entry chosen at each step; runners_up int [B, C, S, 4]
    and runner_log_probs float32 of the entries that were allowed there, best first.
    """

    entries: jax.Array
    log_probs: jax.Array
    step_log_probs: jax.Array
    runners_up: jax.Array
    runner_log_probs: jax.Array


@struct.dataclass
class _State:
    """The loop's buffers. `last` [B, C]: the entry chosen last; `done` [B, C]: plans that ended."""

    step: jax.Array  # entries chosen so far
    hidden: jax.Array  # [B, C, D], predicts the next entry
    cache: Cache
    last: jax.Array
    done: jax.Array
    found: Decoded


# (state, log-probabilities [B, C, M + 1], the masked ones) -> (entry, parent, totals), [B, C] each
_Choose = Callable[[_State, jax.Array, jax.Array], tuple[jax.Array, jax.Array, jax.Array]]


@partial(jax.jit, static_argnames=("spec", "steps", "beams"))
def decode(
    params: Params,
    index: Index,
    spec: ModelSpec,
    ids: jax.Array,
    lengths: jax.Array,
    limits: Limits,
    steps: int,
    beams: int = 1,
) -> Decoded:
    """The `beams` most probable plans of each prompt by beam search; one beam is greedy.

    ids int [B, T] right-padded, lengths int [B]; `steps` S is the static length of the buffers
    (a bucket), `limits` what is allowed. Beams compare by the plan's log-probability.
    """

    def choose(
        state: _State, log_probs: jax.Array, masked: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        entries = masked.shape[-1]
        ended = jnp.where(jnp.arange(entries) == 0, 0.0, -jnp.inf)
        scores = state.found.log_probs[..., None] + jnp.where(state.done[..., None], ended, masked)
        totals, flat = jax.lax.top_k(scores.reshape(scores.shape[0], -1), beams)
        return flat % entries, flat // entries, totals

    start = jnp.where(jnp.arange(beams) == 0, 0.0, -jnp.inf)
    return _run(params, index, spec, ids, lengths, limits, steps, beams, start, choose)


def sample_rollouts(
    params: Params,
    index: Index,
    spec: ModelSpec,
    ids: jax.Array,
    lengths: jax.Array,
    keys: jax.Array,
    steps: int,
    rollouts: int = 1,
    temperature: float = 1.0,
) -> tuple[jax.Array, jax.Array]:
    """Plans sampled from the planner's own distribution over all tools and end-of-plan.

    keys: one PRNG key a prompt [B]; step s of rollout c draws with fold_in(fold_in(key, c), s), so
    that a row's plan depends on nothing but its own key. At most `steps` entries, a plan that has
    not ended by then is cut. Returns (entries int [B, C, S], mask bool [B, C, S]: the steps up to
    and including end-of-plan).
    """
    b = ids.shape[0]
    words = index.valid.shape[-1]
    everything = jnp.full((b, words), 0xFFFFFFFF, jnp.uint32)
    limits = Limits(
        allowed=everything,
        reach=jnp.full((steps, words), 0xFFFFFFFF, jnp.uint32),
        follow_graph=jnp.asarray(False),
        min_steps=jnp.asarray(0),
        max_steps=jnp.asarray(steps),
    )
    each = jax.vmap(lambda key: jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(rollouts)))
    row_keys = each(keys)

    def choose(
        state: _State, log_probs: jax.Array, masked: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        at_step = jax.vmap(jax.vmap(lambda key: jax.random.fold_in(key, state.step)))(row_keys)
        drawn = jax.vmap(jax.vmap(jax.random.categorical))(at_step, masked / temperature)
        entry = jnp.where(state.done, 0, drawn)
        gained = jnp.take_along_axis(log_probs, entry[..., None], axis=-1)[..., 0]
        totals = state.found.log_probs + jnp.where(state.done, 0.0, gained)
        return entry, jnp.broadcast_to(jnp.arange(rollouts), entry.shape), totals

    found = _run(
        params, index, spec, ids, lengths, limits, steps, rollouts, jnp.zeros(rollouts), choose
    )
    ended_before = jnp.cumsum(found.entries == 0, axis=-1) - (found.entries == 0) > 0
    return found.entries, ~ended_before


def _run(
    params: Params,
    index: Index,
    spec: ModelSpec,
    ids: jax.Array,
    lengths: jax.Array,
    limits: Limits,
    steps: int,
    width: int,
    start: jax.Array,
    choose: _Choose,
) -> Decoded:
    b = ids.shape[0]
    valid = unpack(index.valid)
    shown = min(RUNNERS_UP, index.capacity + 1)
    hidden, cache = prompt_pass(params, spec, ids, lengths, width, steps)
    state = _State(
        step=jnp.asarray(0),
        hidden=jnp.broadcast_to(hidden[:, None], (b, width, hidden.shape[-1])),
        cache=cache,
        last=jnp.zeros((b, width), jnp.int32),
        done=jnp.zeros((b, width), bool),
        found=Decoded(
            entries=jnp.zeros((b, width, steps), jnp.int32),
            log_probs=jnp.broadcast_to(start, (b, width)).astype(jnp.float32),
            step_log_probs=jnp.zeros((b, width, steps)),
            runners_up=jnp.zeros((b, width, steps, shown), jnp.int32),
            runner_log_probs=jnp.full((b, width, steps, shown), -jnp.inf),
        ),
    )

    def select(state: _State) -> _State:
        step = state.step
        logits = restricted_logits(params.base, params.tools, state.hidden, spec.end_id, valid)
        log_probs = jax.nn.log_softmax(logits, axis=-1)
        open_tools = (limits.allowed & limits.reach[step])[:, None]
        can_end = jnp.broadcast_to(step >= limits.min_steps, state.done.shape)
        must_end = step >= limits.max_steps
        mask = allowed_entries(
            index,
            state.last,
            jnp.where(must_end, jnp.uint32(0), open_tools),
            limits.follow_graph,
            can_end | must_end,
        )
        masked = jnp.where(mask, log_probs, -jnp.inf)
        entry, parent, totals = choose(state, log_probs, masked)
        runner_log_probs, runners_up = jax.lax.top_k(masked, shown)
        # What continues is what the chosen parents had; with one beam nothing moves.
        pick = partial(_pick, parent) if width > 1 else lambda array: array
        was_done = pick(state.done)
        gained = jnp.take_along_axis(pick(log_probs), entry[..., None], axis=-1)[..., 0]
        before = jax.tree.map(pick, state.found)
        found = Decoded(
            entries=before.entries.at[..., step].set(entry),
            log_probs=totals,
            step_log_probs=before.step_log_probs.at[..., step].set(
                jnp.where(was_done, 0.0, gained)
            ),
            runners_up=before.runners_up.at[..., step, :].set(pick(runners_up)),
            runner_log_probs=before.runner_log_probs.at[..., step, :].set(pick(runner_log_probs)),
        )
        return _State(
            step=step + 1,
            hidden=state.hidden,
            cache=dataclasses.replace(state.cache, own=jax.tree.map(pick, state.cache.own)),
            last=entry,
            done=was_done | (entry == 0),
            found=found,
        )

    def feed_and_select(state: _State) -> _State:
        token = entry_tokens(state.last, spec.end_id, spec.vocab_size)
        hidden, cache = step_pass(params, spec, state.cache, token, state.step - 1)
        return select(dataclasses.replace(state, hidden=hidden, cache=cache))

    # Stops when every plan has ended: nothing is fed for an end-of-plan that all have reached.
    def unfinished(state: _State) -> jax.Array:
        return (state.step < steps) & ~state.done.all()

    return jax.lax.while_loop(unfinished, feed_and_select, select(state)).found


def _pick(parent: jax.Array, array: jax.Array) -> jax.Array:
    """Rows of `array` [B, C, ...] by parent [B, C]."""
    index = parent.reshape(*parent.shape, *([1] * (array.ndim - 2)))
    return jnp.take_along_axis(array, index, axis=1)


@partial(jax.jit, static_argnames=("spec", "steps", "words"))
def decode_unconstrained(
    params: Params,
    index: Index,
    spec: ModelSpec,
    ids: jax.Array,
    lengths: jax.Array,
    max_steps: jax.Array,
    words: int,
    steps: int,
) -> tuple[jax.Array, jax.Array]:
    """Greedy decoding over the whole vocabulary, words and tools: what the planner says unasked.

    The end is forced after `max_steps` tokens (an int scalar, < S); `words` is the number of real
    vocabulary entries. Returns (tokens int [B, S] with V + i for tool
    i, log-probabilities float32 [B, S] over the full space); a row ends with its first end-of-plan
    token and is filled with it.
    """
    valid = unpack(index.valid)
    hidden, cache = prompt_pass(params, spec, ids, lengths, 1, steps)
    eos = spec.end_id
    tokens = jnp.full((ids.shape[0], steps), eos, jnp.int32)
    scores = jnp.zeros(tokens.shape)
    done = jnp.zeros(ids.shape[0], bool)
    Loop = tuple[Any, ...]

    def advance(loop: Loop) -> Loop:
        step, hidden, cache, tokens, scores, done = loop
        logits = full_logits(params.base, params.tools, hidden, words, valid)
        log_probs = jax.nn.log_softmax(logits, axis=-1)
        must_end = done | (step >= max_steps)
        token = jnp.where(must_end, eos, jnp.argmax(log_probs, axis=-1)).astype(jnp.int32)
        gained = jnp.take_along_axis(log_probs, token[:, None], axis=-1)[:, 0]
        scores = scores.at[:, step].set(jnp.where(done, 0.0, gained))
        tokens = tokens.at[:, step].set(token)
        done = done | (token == eos)
        hidden, cache = step_pass(params, spec, cache, token[:, None], step)
        return step + 1, hidden[:, 0], cache, tokens, scores, done

    def unfinished(loop: Loop) -> jax.Array:
        return (loop[0] < steps) & ~loop[-1].all()

    start = (jnp.asarray(0), hidden, cache, tokens, scores, done)
    final = jax.lax.while_loop(unfinished, advance, start)
    return final[3], final[4]
