"""Prompts as token ids (Eq. 10): a fixed frame around a query, or around a query and its solution.

Queries are data: they are tokenised with special tokens switched off, so nothing typed in a request
becomes a control token or a tool. Tools stand in a prompt as tokens of their own (V + i).
Knows a tokenizer's `encode_text` and `chat_frame`, nothing of models.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

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
    a long request asks for stands at its ends.
    """

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", vocabulary: int, max_query_tokens: int
    ) -> None:
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._max = max_query_tokens
        self._student = Frame(*map(tuple, chat_frame(tokenizer, STUDENT_SYSTEM)))
        self._teacher = Frame(*map(tuple, chat_frame(tokenizer, TEACHER_SYSTEM)))
        self._grounding = Frame(*map(tuple, chat_frame(tokenizer, GROUNDING_SYSTEM)))

    @property
    def first_token(self) -> int:
        """What a bare sequence of tools starts with: the chat template's first token."""
        return self._student.prefix[0]

    def cut(self, text: str) -> Cut:
        """A text's ids by the cut rule. Far more characters than can matter are never tokenised."""
        head, tail = self._max - self._max // 4, self._max // 4
        widest = 32 * self._max  # characters; a token of text is rarely longer than 16
        clipped = len(text) > 2 * widest
        if clipped:
            text = text[:widest] + text[-widest:]
        ids = encode_text(self._tokenizer, text)
        if len(ids) > self._max:
            return Cut((*ids[:head], *ids[len(ids) - tail :]), True)
        return Cut(tuple(ids), clipped)

    def student(self, query: str) -> Cut:
        """P_S(q) = [Query: q]."""
        cut = self.cut(query.strip())
        return Cut(self._framed(self._student, [*self._text(QUERY), *cut.ids]), cut.truncated)

    def teacher(self, query: str, subtasks: Sequence[str], tools: Sequence[int]) -> Cut:
        """P_T(q, s, y) = [Query: q; Subtasks: s; Tools: z]. `tools` are tool numbers.

        Without subtasks aligned with the tools the solution is the tool sequence alone.
        """
        cut = self.cut(query.strip())
        body = [*self._text(QUERY), *cut.ids, *self._text(SOLUTION)]
        if len(subtasks) == len(tools):
            for number, (subtask, tool) in enumerate(zip(subtasks, tools, strict=True), start=1):
                step = ("\n" if number > 1 else "") + STEP.format(number=number) + subtask.strip()
                body += [*self._text(step + STEP_TOOL), self._vocabulary + tool]
        body += self._text(SEQUENCE)
        body += [self._vocabulary + tool for tool in tools]
        body += self._text(AGAIN)
        return Cut(self._framed(self._teacher, body), cut.truncated)

    def grounding(self, subtask: str) -> Cut:
        """The prompt of one subtask, whose answer is one tool."""
        cut = self.cut(subtask.strip())
        return Cut(self._framed(self._grounding, list(cut.ids)), cut.truncated)

    def _text(self, text: str) -> list[int]:
        return encode_text(self._tokenizer, text)

    def _framed(self, frame: Frame, body: Sequence[int]) -> tuple[int, ...]:
        return (*frame.prefix, *body, *frame.suffix)


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
