"""The tool graph as arrays: successors as bits, sampled paths, edges held out and candidates.

Everything random is a pure function of its seed or generator. Must not know tokens or models.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from graft_jax.catalog.catalog import Catalog

WORD = 32  # tools a word of bits


def capacity(n: int) -> int:
    """Rows kept for n tools: the power of two at or above max(32, n).

    A tool that is added within the capacity changes no shape, so nothing compiles again.
    """
    return max(WORD, 1 << max(n - 1, 0).bit_length())


def tool_bits(indices: Iterable[int] | np.ndarray, capacity: int) -> np.ndarray:
    """A set of tools as bits, uint32 [capacity // 32]; tool j is bit j % 32 of word j // 32.

    Raises:
      ValueError: an index is outside [0, capacity).
    """
    columns = np.asarray(
        indices if isinstance(indices, np.ndarray) else list(indices), dtype=np.int64
    )
    return _bits(np.zeros_like(columns), columns, 1, capacity)[0]


def successor_bits(catalog: Catalog, capacity: int) -> np.ndarray:
    """The tools that may follow, as bits, uint32 [capacity + 1, capacity // 32].

    Row 0 stands before the first tool and holds every tool of the catalog; row i + 1 holds the
    successors of tool i. Bits are laid out as in `tool_bits`.

    Raises:
      ValueError: the catalog has more tools than the capacity.
    """
    if len(catalog) > capacity:
        raise ValueError(f"{len(catalog)} tools do not fit a capacity of {capacity}")
    sources, targets = _edge_arrays(catalog.successors)
    first = np.arange(len(catalog))
    rows = np.concatenate([np.zeros_like(first), sources + 1])
    return _bits(rows, np.concatenate([first, targets]), capacity + 1, capacity)


def length_distribution(plans: Iterable[Sequence[Any]]) -> dict[int, float]:
    """The empirical distribution of the plans' lengths, {length: share}, lengths ascending."""
    counts = Counter(len(plan) for plan in plans)
    return {length: counts[length] / counts.total() for length in sorted(counts)}


def sample_paths(
    successors: Sequence[np.ndarray],
    lengths_distribution: Mapping[int, float],
    count: int,
    seed: int | Sequence[int],
) -> list[np.ndarray]:
    """Eq. 6: directed paths rho = (u_1 ... u_R), each (u_r, u_r+1) an edge.

    R is drawn from the training plans' lengths, u_1 uniformly over the tools, each next tool
    uniformly over the successors. A path that reaches a tool without successors ends there.

    Args:
      successors: for each tool an int array of its successors.
      lengths_distribution: {R: weight}; weights need not sum to one.
      count: number of paths.
      seed: the paths are a pure function of it.

    Returns:
      `count` int32 arrays of tool indices, each [R] or shorter.

    Raises:
      ValueError: no tools, no lengths, a length below one, or weights that are no distribution.
    """
    lengths = sorted(lengths_distribution)
    weights = np.array([lengths_distribution[length] for length in lengths], dtype=np.float64)
    if not len(successors) or not lengths or lengths[0] < 1:
        raise ValueError(f"needs tools, and lengths of one or more; got lengths {lengths}")
    if (weights < 0).any() or not 0 < weights.sum() < np.inf:
        raise ValueError(f"weights of lengths must be >= 0 with a positive sum; got {weights}")
    rng = np.random.default_rng(seed)
    drawn = rng.choice(lengths, size=count, p=weights / weights.sum())
    starts = rng.integers(len(successors), size=count)
    return [
        _walk(int(start), int(length), successors, rng)
        for start, length in zip(starts, drawn, strict=True)
    ]


def hold_out_edges(
    catalog: Catalog, share: float, seed: int | Sequence[int]
) -> tuple[tuple[np.ndarray, ...], list[tuple[int, int]]]:
    """Sets a share of the edges aside, drawn uniformly, to ask later whether they are recovered.

    Returns:
      The kept successors (int32, sorted, one array a tool) and the held-out edges (i, j), sorted.

    Raises:
      ValueError: the share is outside [0, 1].
    """
    if not 0 <= share <= 1:
        raise ValueError(f"a share of edges must be in [0, 1]; got {share}")
    sources, targets = _edge_arrays(catalog.successors)
    total = len(sources)
    held = np.zeros(total, dtype=bool)
    held[np.random.default_rng(seed).permutation(total)[: round(share * total)]] = True
    ends = np.searchsorted(sources[~held], np.arange(1, len(catalog)))
    kept = tuple(np.split(targets[~held].astype(np.int32), ends))
    return kept, list(zip(sources[held].tolist(), targets[held].tolist(), strict=True))


def candidate_width(
    kept_successors: Sequence[np.ndarray], num_tools: int, negatives_per_positive: int = 10
) -> int:
    """C, the most candidates that any tool of the graph can have (at least one)."""
    degree = max((len(row) for row in kept_successors), default=0)
    return max(1, min(num_tools, degree * (1 + negatives_per_positive)))


def edge_candidates(
    path_nodes: np.ndarray,
    kept_successors: Sequence[np.ndarray],
    held_out: Sequence[tuple[int, int]],
    num_tools: int,
    negatives_per_positive: int = 10,
    *,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """The candidates C(u) of Eq. 8 for every tool u of the paths: its successors, then negatives.

    Negatives are reverse-edge tools first (t -> u is a kept edge, u -> t is none), then tools drawn
    uniformly without replacement from the other non-successors, u itself among them unless it has a
    self-loop. A held-out successor is never a candidate. Fewer where there are fewer.

    Args:
      path_nodes: tool indices, int [...]; -1 pads.
      kept_successors: one int array a tool.
      held_out: edges (i, j) kept from the loss.
      num_tools: negatives are drawn from [0, num_tools).
      negatives_per_positive: ten in the paper.
      rng: every position draws anew from it.

    Returns:
      candidates, int32 [..., C], -1 pads; positive, bool [..., C]. C is `candidate_width(...)`, the
      same in every call. A position without kept successors has no candidates.
    """
    nodes = np.asarray(path_nodes)
    width = candidate_width(kept_successors, num_tools, negatives_per_positive)
    candidates = np.full((*nodes.shape, width), -1, dtype=np.int32)
    positive = np.zeros(candidates.shape, dtype=bool)
    sources, targets = _edge_arrays(kept_successors)
    by_target = np.argsort(targets, kind="stable")
    bounds = np.searchsorted(targets[by_target], np.arange(num_tools + 1))
    hidden: dict[int, list[int]] = {}
    for i, j in held_out:
        hidden.setdefault(i, []).append(j)

    for position in np.ndindex(nodes.shape):
        node = int(nodes[position])
        if node < 0 or not len(kept_successors[node]):
            continue
        successors = kept_successors[node]
        free = np.ones(num_tools, dtype=bool)
        free[successors] = False
        free[hidden.get(node, [])] = False
        predecessors = sources[by_target[bounds[node] : bounds[node + 1]]]
        reverse = predecessors[free[predecessors]]
        free[reverse] = False
        needed = len(successors) * negatives_per_positive
        chosen = _draw(reverse, needed, rng)
        chosen = np.concatenate([chosen, _draw(np.flatnonzero(free), needed - len(chosen), rng)])
        row = np.concatenate([successors, chosen])
        candidates[position][: len(row)] = row
        positive[position][: len(successors)] = True
    return candidates, positive


def _bits(rows: np.ndarray, columns: np.ndarray, num_rows: int, capacity: int) -> np.ndarray:
    if capacity % WORD:
        raise ValueError(f"a capacity must be a multiple of {WORD}; got {capacity}")
    if columns.size and not 0 <= columns.min() <= columns.max() < capacity:
        raise ValueError(f"tool indices must be in [0, {capacity}); got {columns}")
    bits = np.zeros((num_rows, capacity // WORD), dtype=np.uint32)
    values = np.left_shift(np.uint32(1), (columns % WORD).astype(np.uint32))
    np.bitwise_or.at(bits, (rows, columns // WORD), values)
    return bits


def _edge_arrays(successors: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sources and targets of all edges, int64 [E] each, sorted by (source, target)."""
    sources = np.repeat(np.arange(len(successors)), [len(row) for row in successors])
    targets = np.concatenate([np.zeros(0, dtype=np.int64), *successors])
    return sources, targets.astype(np.int64)


def _walk(
    start: int, length: int, successors: Sequence[np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    path = [start]
    while len(path) < length and len(successors[path[-1]]):
        path.append(int(rng.choice(successors[path[-1]])))
    return np.array(path, dtype=np.int32)


def _draw(pool: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    """Up to `number` entries of the pool, without replacement."""
    return rng.permutation(pool)[: max(number, 0)]
