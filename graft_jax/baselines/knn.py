"""kNN: the majority plan of the training queries nearest to a query. It stands in every report.

Unigram TF-IDF over queries, cosine, five neighbours. Knows examples by their `query` and `tools`;
must not know models.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol, Self

import numpy as np
import scipy.sparse

from graft_jax.catalog.catalog import Catalog
from graft_jax.errors import GraftError

_WORD = re.compile(r"\b\w\w+\b")
_ROWS = 256  # queries compared at a time, which bounds memory


class PlannedQuery(Protocol):
    """What a training example must have: a request and its gold plan."""

    @property
    def query(self) -> str: ...

    @property
    def tools(self) -> tuple[str, ...]: ...


class TfIdf:
    """Texts as unit TF-IDF vectors over the words of the texts it was made from.

    Words are lower-cased runs of two or more word characters. A word weighs its count times
    ln((1 + n) / (1 + n_w)) + 1, where n_w of the n texts hold it; an unknown word weighs nothing.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(words(text)) for text in texts]
        frequency = Counter(word for count in counts for word in count)
        self._column = {word: i for i, word in enumerate(sorted(frequency))}
        held = np.array([frequency[word] for word in self._column], dtype=np.float64)
        self._idf = np.log((1 + len(texts)) / (1 + held)) + 1

    def __call__(self, texts: Sequence[str]) -> scipy.sparse.csr_matrix:
        """Vectors of `texts`, float64 [len(texts), words]; all zero for a text of unknown words."""
        values: list[float] = []
        columns: list[int] = []
        starts = [0]
        for text in texts:
            counts = Counter(self._column[w] for w in words(text) if w in self._column)
            ids = sorted(counts)
            weights = self._idf[ids] * [counts[i] for i in ids] if ids else np.zeros(0)
            values.extend(weights / (np.linalg.norm(weights) or 1.0))
            columns.extend(ids)
            starts.append(len(columns))
        return scipy.sparse.csr_matrix(
            (values, columns, starts), shape=(len(texts), len(self._column)), dtype=np.float64
        )


class KNN:
    """Plans a query as its nearest training queries were planned.

    The plan that most of the `neighbours` nearest share; among equals the one that stands nearest.
    Queries at one distance keep the order of training.
    """

    def __init__(self, neighbours: int = 5) -> None:
        if neighbours < 1:
            raise ValueError(f"kNN needs at least one neighbour; got {neighbours}")
        self.neighbours = neighbours
        self._plans: list[tuple[str, ...]] = []

    def fit(self, train: Iterable[PlannedQuery], catalog: Catalog) -> Self:
        """Keeps the training plans, and their queries as vectors.

        Raises:
          GraftError: there is no training example, or a plan names a tool the catalog lacks.
        """
        examples = list(train)
        if not examples:
            raise GraftError("kNN has no training examples; give it a split that is not empty")
        for i, example in enumerate(examples):
            unknown = [name for name in example.tools if name not in catalog.index]
            if unknown:
                raise GraftError(
                    f"training example {i} ({example.query!r:.60}): the catalog has no tool "
                    f"{unknown[0]!r}; prepare examples and catalog together"
                )
        self._plans = [tuple(example.tools) for example in examples]
        queries = [example.query for example in examples]
        self._vectorize = TfIdf(queries)
        self._train = self._vectorize(queries).T.tocsr()
        return self

    def plan(self, queries: Sequence[str]) -> list[list[str]]:
        """One plan a query. Calls no model, so tokens and calls are both zero."""
        return [list(self._majority(row)) for row in self.nearest(queries)]

    def nearest(self, queries: Sequence[str]) -> np.ndarray:
        """Training rows by falling cosine, int64 [len(queries), min(neighbours, training rows)]."""
        if not self._plans:
            raise RuntimeError("kNN has nothing to plan from; call fit first")
        vectors = self._vectorize(queries)
        count = min(self.neighbours, len(self._plans))
        blocks = [np.zeros((0, count), dtype=np.int64)]
        for start in range(0, len(queries), _ROWS):
            # Rounded, so that the last bits of a sum decide no tie, on any machine.
            cosines = (vectors[start : start + _ROWS] @ self._train).toarray().round(12)
            blocks.append(np.argsort(-cosines, axis=1, kind="stable")[:, :count])
        return np.concatenate(blocks)

    def _majority(self, rows: np.ndarray) -> tuple[str, ...]:
        # Equal counts keep the order of insertion, which is from near to far.
        return Counter(self._plans[row] for row in rows).most_common(1)[0][0]


def words(text: str) -> list[str]:
    """The words of a text, in order, lower-cased."""
    return _WORD.findall(text.lower())
