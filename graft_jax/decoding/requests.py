"""Lists of prompts into batches of few shapes, through `decode`, and back in order.

Lengths go up to a bucket, rows up to a bucket, so that fifty query lengths compile no more programs
than there are buckets. Plain NumPy on the outside; knows nothing of text or names.
"""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from graft_jax.catalog.graph import tool_bits
from graft_jax.data.batches import pad_prompts
from graft_jax.data.order import STEP_BUCKETS, bucket
from graft_jax.decoding.decode import Decoded, Limits, decode, decode_unconstrained
from graft_jax.decoding.masks import Index
from graft_jax.errors import GraftError
from graft_jax.models.adapter import Params
from graft_jax.models.spec import ModelSpec

ROW_BUCKETS = (1, 8, 32)


@dataclasses.dataclass(frozen=True)
class Request:
    """What all prompts of a call share.

    allowed: bool [tools], the tools that may be used; follow_graph: only successors of the last
    tool; a plan has min_steps to max_steps tools; plans: how many a prompt (beams).
    """

    allowed: np.ndarray
    follow_graph: bool
    min_steps: int
    max_steps: int
    plans: int = 1


def make_limits(request: Request, successors: Sequence[np.ndarray], capacity: int) -> Limits:
    """The request as masks, dead ends left out: a plan never runs into a tool from which it could
    not go on to `min_steps`.

    Raises:
      GraftError: no plan can satisfy the request; says how long the longest is.
    """
    _check_steps(request.min_steps, request.max_steps)
    if not request.allowed.any():
        raise GraftError("no tool is allowed; widen allow or shorten deny")
    steps = bucket(request.max_steps + 1, STEP_BUCKETS)
    # open_from[r]: tools from which at least r more steps are possible.
    open_from = [request.allowed]
    for further in range(1, request.min_steps):
        before = open_from[-1]
        if request.follow_graph:
            onward = np.array(
                [ok and before[successors[i]].any() for i, ok in enumerate(request.allowed)]
            )
        else:
            onward = request.allowed & before.any()
        if not onward.any():
            raise GraftError(
                f"min_steps {request.min_steps}: the allowed tools chain into plans of at most "
                f"{further} legal steps; lower min_steps, widen allow, or use constrain='tools'"
            )
        open_from.append(onward)
    bits = [tool_bits(np.flatnonzero(tools), capacity) for tools in open_from]
    reach = [bits[max(request.min_steps - step - 1, 0)] for step in range(steps)]
    return Limits(
        allowed=jnp.asarray(bits[0])[None],
        reach=jnp.asarray(np.stack(reach)),
        follow_graph=jnp.asarray(request.follow_graph),
        min_steps=jnp.asarray(request.min_steps),
        max_steps=jnp.asarray(request.max_steps),
    )


def decode_prompts(
    params: Params,
    index: Index,
    spec: ModelSpec,
    prompts: Sequence[Sequence[int]],
    limits: Limits,
    plans: int = 1,
) -> Decoded:
    """`decode` over any number of prompts of any lengths; NumPy arrays, rows in the given order.

    Where fewer than `plans` plans exist, the rest has log-probability -inf.
    """
    steps = limits.reach.shape[0]

    def run(ids: jax.Array, lengths: jax.Array) -> Decoded:
        allowed = jnp.broadcast_to(limits.allowed, (ids.shape[0], limits.allowed.shape[-1]))
        rows = dataclasses.replace(limits, allowed=allowed)
        return decode(params, index, spec, ids, lengths, rows, steps=steps, beams=plans)

    return _in_batches(prompts, run)


def decode_prompts_unconstrained(
    params: Params,
    index: Index,
    spec: ModelSpec,
    prompts: Sequence[Sequence[int]],
    words: int,
    max_steps: int,
) -> tuple[np.ndarray, np.ndarray]:
    """`decode_unconstrained` over prompts: tokens and log-probabilities [prompts, S].

    Raises:
      GraftError: a `max_steps` that is out of range.
    """
    _check_steps(1, max_steps)
    limit = jnp.asarray(max_steps)
    steps = bucket(max_steps + 1, STEP_BUCKETS)
    return _in_batches(
        prompts,
        lambda ids, lengths: decode_unconstrained(
            params, index, spec, ids, lengths, limit, words=words, steps=steps
        ),
    )


def _check_steps(least: int, most: int) -> None:
    if not 1 <= least <= most:
        raise GraftError(
            f"min_steps {least} and max_steps {most}: give 1 <= min_steps <= max_steps"
        )
    if most >= STEP_BUCKETS[-1]:
        raise GraftError(f"max_steps {most}: at most {STEP_BUCKETS[-1] - 1}")


def _in_batches(prompts, run):  # type: ignore[no-untyped-def]
    """Runs prompts of similar length together and puts the results' rows back in order."""
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    parts, first = [], 0
    while first < len(order):
        left = len(order) - first
        count = min(left, ROW_BUCKETS[-1])
        chosen = [prompts[i] for i in order[first : first + count]]
        rows = bucket(count, ROW_BUCKETS)
        batch = pad_prompts(
            [*chosen, *[chosen[-1]] * (rows - count)], bucket(max(map(len, chosen)))
        )
        found = run(jnp.asarray(batch.ids), jnp.asarray(batch.lengths))
        parts.append(jax.tree.map(lambda array, n=count: np.asarray(array)[:n], found))
        first += count
    back = np.argsort(order)
    return jax.tree.map(lambda *arrays: np.concatenate(arrays)[back], *parts)
