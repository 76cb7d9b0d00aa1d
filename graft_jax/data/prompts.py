"""Prompts as token ids (Eq. 10): a fixed frame around a query, or around a query and its solution.

Queries are data: they are tokenised with special tokens switched off, so nothing typed in a request
becomes a control token or a tool. Tools stand in a prompt as tokens of their own (V + i).
Knows a tokenizer's `encode_text` and `chat_frame`, nothing of models.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from graft_jax.data.order import BUCKETS, STEP_BUCKETS
from graft_jax.errors import GraftError
from graft_jax.io.tokenizer import chat_frame, encode_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# The words around a request. Short: a frame longer than the request costs more than the request.
STUDENT_SYSTEM = "Plan the tools."
TEACHER_SYSTEM = "Plan the tools. A reference solution is given."
GROUNDING_SYSTEM = "Name the tool."
QUERY = "Query: "
SOLUTION = "\nReference solution:\n"
STEP = "Step {number}: "
STEP_TOOL = " Tool:"
SEQUENCE = "\nTool sequence:"
AGAIN = "\nOutput this tool sequence."


@dataclasses.dataclass(frozen=True)
class Cut:
    """Token ids of a text after the cut rule, and whether anything was cut."""

    ids: tuple[int, ...]
    truncated: bool


@dataclasses.dataclass(frozen=True)
class Frame:
    """Token ids before and after the user's text, generation prompt included."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]


class Prompts:
    """The three prompts of a planner, for one tokenizer.

    `vocabulary` is V, the id of the first tool. `max_query_tokens` is the cut rule: of a longer
    request the first three quarters of that many tokens and the last quarter are kept, since what
    a long request asks for stands at its ends. The subtasks of a teacher's prompt share as many
    tokens: where they have more, the longest are cut by that rule to one length, the largest that
    fits. `max_positions` is the backbone's context, which holds a prompt and its plan.

    Raises, with every prompt:
      GraftError: it does not fit into the context, or into the largest bucket.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        vocabulary: int,
        max_query_tokens: int,
        max_positions: int = BUCKETS[-1],
    ) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._max = max_query_tokens
        self._room = max(min(max_positions, BUCKETS[-1]) - STEP_BUCKETS[-1], 0)
        self._student = Frame(*map(tuple, chat_frame(tokenizer, STUDENT_SYSTEM)))
        self._teacher = Frame(*map(tuple, chat_frame(tokenizer, TEACHER_SYSTEM)))
        self._grounding = Frame(*map(tuple, chat_frame(tokenizer, GROUNDING_SYSTEM)))
        self._before_query = len(self._student.prefix) + len(self._text(QUERY))

    @property
    def first_token(self) -> int:
        """What a bare sequence of tools starts with: the chat template's first token."""
        return self._student.prefix[0]

    def cut(self, text: str) -> Cut:
        """A text's ids by the cut rule. Far more characters than can matter are never tokenised."""
        widest = 32 * self._max  # characters; a token of text is rarely longer than 16
        clipped = len(text) > 2 * widest
        if clipped:
            text = text[:widest] + text[-widest:]
        ids = tuple(encode_text(self._tokenizer, text))
        return Cut(_ends(ids, self._max), clipped or len(ids) > self._max)

    def student(self, query: str) -> Cut:
        """P_S(q) = [Query: q]."""
        cut = self.cut(query.strip())
        return Cut(self._framed(self._student, [*self._text(QUERY), *cut.ids]), cut.truncated)

    def thinned(
        self, prompt: Sequence[int], share: float, rng: np.random.Generator
    ) -> tuple[int, ...]:
        """A student's prompt with about `share` of the query's tokens left out, drawn one by one.

        Word dropout (Iyyer et al. 2015): a plan should not hang on one detail of the request.
        """
        head, tail = self._before_query, len(prompt) - len(self._student.suffix)
        kept = rng.random(tail - head) >= share
        query = (token for token, keep in zip(prompt[head:tail], kept, strict=True) if keep)
        return (*prompt[:head], *query, *prompt[tail:])

    def teacher(self, query: str, subtasks: Sequence[str], tools: Sequence[int]) -> Cut:
        """P_T(q, s, y) = [Query: q; Subtasks: s; Tools: z]. `tools` are tool numbers.

        Without subtasks aligned with the tools the solution is the tool sequence alone.
        """
        cut, steps = self.cut(query.strip()), self._steps(subtasks, tools)
        body = [
            *self._text(QUERY),
            *cut.ids,
            *self._text(SOLUTION),
            *steps.ids,
            *self._text(SEQUENCE),
            *(self._vocabulary + tool for tool in tools),
            *self._text(AGAIN),
        ]
        return Cut(self._framed(self._teacher, body), cut.truncated or steps.truncated)

    def grounding(self, subtask: str) -> Cut:
        """The prompt of one subtask, whose answer is one tool."""
        cut = self.cut(subtask.strip())
        return Cut(self._framed(self._grounding, list(cut.ids)), cut.truncated)

    def _steps(self, subtasks: Sequence[str], tools: Sequence[int]) -> Cut:
        """One line a step; nothing where the numbers of subtasks and tools differ."""
        if len(subtasks) != len(tools):
            return Cut((), False)
        cuts = [self.cut(subtask.strip()) for subtask in subtasks]
        most = _shared(self._max, [len(cut.ids) for cut in cuts])
        ids: list[int] = []
        truncated = False
        for number, (subtask, cut, tool) in enumerate(
            zip(subtasks, cuts, tools, strict=True), start=1
        ):
            before = ("\n" if number > 1 else "") + STEP.format(number=number)
            if cut.truncated or len(cut.ids) > most:
                truncated = True
                ids += [*self._text(before), *_ends(cut.ids, most), *self._text(STEP_TOOL)]
            else:  # as one text, whose words join their spaces
                ids += self._text(before + subtask.strip() + STEP_TOOL)
            ids.append(self._vocabulary + tool)
        return Cut(tuple(ids), truncated)

    def _text(self, text: str) -> list[int]:
        return encode_text(self._tokenizer, text)

    def _framed(self, frame: Frame, body: Sequence[int]) -> tuple[int, ...]:
        ids = (*frame.prefix, *body, *frame.suffix)
        if len(ids) > self._room:
            raise GraftError(
                f"a prompt of {len(ids)} tokens, but the backbone's context and the largest bucket "
                f"have room for {self._room} beside a plan; give a smaller --max-query-tokens (now "
                f"{self._max}), or choose a backbone of a longer context"
            )
        return ids


def _ends(ids: tuple[int, ...], most: int) -> tuple[int, ...]:
    """The cut rule: all ids, or the first three quarters of `most` and the last quarter."""
    tail = most // 4
    return ids if len(ids) <= most else (*ids[: most - tail], *ids[len(ids) - tail :])


def _shared(budget: int, lengths: Sequence[int]) -> int:
    """The largest length to which texts may be cut so that together they stay in the budget."""
    if sum(lengths) <= budget:
        return budget
    return max(n for n in range(budget) if sum(min(n, length) for length in lengths) <= budget)


def templates() -> dict[str, str]:
    """The words of the three prompts, as stored with a planner."""
    return {
        "student_system": STUDENT_SYSTEM,
        "teacher_system": TEACHER_SYSTEM,
        "grounding_system": GROUNDING_SYSTEM,
        "query": QUERY,
        "solution": SOLUTION,
        "step": STEP,
        "step_tool": STEP_TOOL,
        "sequence": SEQUENCE,
        "again": AGAIN,
    }
