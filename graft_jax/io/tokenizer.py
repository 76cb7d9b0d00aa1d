"""The backbone's tokenizer: text to ids, never to control tokens, and the chat frame.

Knows Hugging Face's tokenizers and chat templates; nothing of tools, prompts or weights.
"""

import contextlib
import dataclasses
import datetime
import functools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import tokenizers

from graft_jax.errors import GraftError
from graft_jax.models.spec import ModelSpec

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Without PyTorch, transformers says on import that it offers tokenizers only: what we want of it.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

# Templates that print the date always print this one: nothing depends on the clock.
_DATE = datetime.datetime(2024, 7, 26)
_SLOT = "{query}"


def load_tokenizer(folder: str | Path) -> "PreTrainedTokenizerBase":
    """Loads the tokenizer of a Hugging Face folder, without network.

    Raises:
      GraftError: no `tokenizer.json`, no end-of-sequence token, or no chat template.
    """
    from transformers import AutoTokenizer  # a second's import, for those who need it

    folder = Path(folder)
    if not (folder / "tokenizer.json").is_file():
        raise GraftError(f"{folder}: has no tokenizer.json; fetch or copy the folder again")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # damaged files end in bare exceptions of several libraries
        raise GraftError(
            f"{folder}: the tokenizer cannot be read ({error}); fetch the folder again"
        ) from error
    if not tokenizer.is_fast:
        raise GraftError(f"{folder}: the tokenizer has no fast form; choose another backbone")
    if tokenizer.eos_token_id is None:
        raise GraftError(
            f"{folder}: the tokenizer names no eos_token, which ends a plan; "
            "add eos_token to tokenizer_config.json"
        )
    try:
        tokenizer.get_chat_template()
    except ValueError:
        raise GraftError(
            f"{folder}: the tokenizer has no chat template; choose an instruction-tuned backbone, "
            "or add chat_template to tokenizer_config.json"
        ) from None
    return tokenizer


def ending_plans(spec: ModelSpec, tokenizer: "PreTrainedTokenizerBase") -> ModelSpec:
    """The spec with the tokenizer's own end-of-sequence token as `end_id`, which ends a plan.

    A backbone may name several, and its config another one first (Llama-3-Instruct does).
    """
    end = int(tokenizer.eos_token_id)  # type: ignore[arg-type]  # load_tokenizer saw to it
    others = tuple(other for other in spec.eos_ids if other != end)
    return dataclasses.replace(spec, eos_ids=(end, *others))


def entries(tokenizer: "PreTrainedTokenizerBase") -> int:
    """Number of ids the tokenizer knows; the embedding's rows from there on are padding."""
    return len(tokenizer)


def encode_text(tokenizer: "PreTrainedTokenizerBase", text: str) -> list[int]:
    """Text as data: no part of it, `<|im_end|>` included, becomes a control token.

    Raises:
      GraftError: the tokenizer makes a control token of it all the same.
    """
    pipelines = _pipelines(tokenizer)
    ids = pipelines.plain.encode(text, add_special_tokens=False).ids
    if not pipelines.control.isdisjoint(ids):
        found = tokenizer.convert_ids_to_tokens(next(i for i in ids if i in pipelines.control))
        raise GraftError(f"the text {text[:80]!r} holds the control token {found!r}; remove it")
    return ids


def chat_frame(
    tokenizer: "PreTrainedTokenizerBase", system: str | None, user_turn: str = _SLOT
) -> tuple[list[int], list[int]]:
    """What the chat template puts around a query, as ids.

    A prompt is `prefix + encode_text(tokenizer, query) + suffix`, with the opening of the answer at
    its end. The template is rendered once, with a stand-in where the query goes.

    Args:
      tokenizer: from `load_tokenizer`.
      system: text of the system turn; where the template has no such role it heads the user turn.
        None: no system turn (some templates then put in one of their own).
      user_turn: the user turn's text, with "{query}" where the query stands.

    Raises:
      GraftError: the template fails, or does not show the user turn exactly once; names the folder.
    """
    if user_turn.count(_SLOT) != 1:
        raise GraftError(f"the user turn {user_turn!r} must contain {_SLOT} exactly once")
    [slot] = _slots(1, f"{system}{user_turn}{tokenizer.chat_template}")
    text = _conversation(tokenizer, system, user_turn.replace(_SLOT, slot))
    prefix, suffix = _cut(tokenizer, text, [slot])
    return prefix, suffix


def _conversation(tokenizer: "PreTrainedTokenizerBase", system: str | None, user: str) -> str:
    """The rendered conversation; a system text the template does not take heads the user turn."""
    turn = {"role": "user", "content": user}
    if system is not None:
        with contextlib.suppress(GraftError):
            text = _rendered(tokenizer, [{"role": "system", "content": system}, turn])
            if system.strip() in text:
                return text
    if system:
        turn["content"] = f"{system}\n\n{user}"
    return _rendered(tokenizer, [turn])


def _rendered(tokenizer: "PreTrainedTokenizerBase", messages: list[dict[str, str]]) -> str:
    """The conversation as text, with the answer's opening."""
    try:
        return str(
            tokenizer.apply_chat_template(
                messages,
                chat_template=_clockless(tokenizer.get_chat_template()),
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=False,  # Qwen3: the plan follows at once
                date_string=_DATE.strftime("%d %b %Y"),  # Llama-3
            )
        )
    except Exception as error:  # a template is a program, and ends in whatever its fault is
        said = " ".join(str(error).split())
        raise GraftError(
            f"{tokenizer.name_or_path}: the chat template fails ({type(error).__name__}: {said}); "
            "mend it, or choose another backbone"
        ) from None


def _clockless(template: str) -> str:
    """The template with the clock that transformers gives it, `strftime_now(format)`, stopped."""
    if "strftime_now" not in template:
        return template
    codes = [f"%{letter}" for letter in "aAbBdHIjmMpSyY"]
    filters = "".join(f" | replace('{code}', '{_DATE.strftime(code)}')" for code in codes)
    return f"{{% macro strftime_now(format) %}}{{{{ format{filters} }}}}{{% endmacro %}}{template}"


def _cut(tokenizer: "PreTrainedTokenizerBase", text: str, slots: Sequence[str]) -> list[list[int]]:
    """Ids of the stretches of `text` before, between and after `slots`, control tokens on.

    The whole text is tokenised and cut by character offsets, so that a stretch has the ids that it
    has in its place.
    """
    for slot in slots:
        if text.count(slot) != 1:
            raise GraftError(
                f"{tokenizer.name_or_path}: the chat template shows a message {text.count(slot)} "
                "times, not once; choose another backbone"
            )
    pipelines = _pipelines(tokenizer)
    encoded = pipelines.template.encode(text, add_special_tokens=False)
    starts = [0, *(text.index(slot) + len(slot) for slot in slots)]
    ends = [*(text.index(slot) for slot in slots), len(text)]
    stretches = []
    for start, end in zip(starts, ends, strict=True):
        inside = [i for i, (a, b) in enumerate(encoded.offsets) if start <= a < b <= end]
        first = encoded.offsets[inside[0]][0] if inside else end
        last = encoded.offsets[inside[-1]][1] if inside else end
        stretches.append(
            _loose(tokenizer, text[start:first])
            + [encoded.ids[i] for i in inside]
            + _loose(tokenizer, text[last:end])
        )
    return stretches


def _loose(tokenizer: "PreTrainedTokenizerBase", text: str) -> list[int]:
    """Ids of template text that shared a token with the stand-in, such as the space before it.

    Tokenizers that put a space before every text (SentencePiece's) bring that space themselves.
    """
    if not text or (text == " " and _pipelines(tokenizer).adds_space):
        return []
    return encode_text(tokenizer, text)


def _slots(count: int, taken: str) -> list[str]:
    """Stand-ins that occur nowhere in `taken`; letters and digits, which templates leave alone."""
    stem = "xquery"
    while stem in taken:
        stem += "q"
    return [f"{stem}{i:06}x" for i in range(count)]


class _Pipelines(NamedTuple):
    plain: tokenizers.Tokenizer  # knows no added token
    template: tokenizers.Tokenizer  # knows all; offsets untrimmed, nothing put around the text
    control: frozenset[int]  # ids that no text may become
    adds_space: bool


@functools.lru_cache(maxsize=8)
def _pipelines(tokenizer: "PreTrainedTokenizerBase") -> _Pipelines:
    """Copies of the tokenizer for text and for templates.

    Switching special tokens off is not enough for text: added tokens that are not marked special
    (Qwen's `<tool_call>`) would still be found in it.
    """
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    content |= {"post_processor": None, "padding": None, "truncation": None}
    template = tokenizers.Tokenizer.from_str(json.dumps(content))
    added = content.pop("added_tokens", [])
    plain = tokenizers.Tokenizer.from_str(json.dumps(content | {"added_tokens": []}))
    return _Pipelines(
        plain=plain,
        template=template,
        control=frozenset({entry["id"] for entry in added} | set(tokenizer.all_special_ids)),
        adds_space=plain.encode("a", add_special_tokens=False).tokens[0] != "a",
    )
