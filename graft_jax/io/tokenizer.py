"""The backbone's tokenizer: text to ids in which no user text is ever a control token, and the chat frame.

Knows Hugging Face's tokenizers and chat templates; nothing of tools, prompts or weights.
"""

import datetime
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import tokenizers

from graft_jax.errors import GraftError

# Without PyTorch, transformers says on import that it offers tokenizers only; that is what we want.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# Templates that print the date always print this one: nothing depends on the clock.
_DATE = datetime.datetime(2024, 7, 26)
_SLOT = "{query}"


def load_tokenizer(folder: str | Path) -> "PreTrainedTokenizerFast":
    """Loads the tokenizer of a Hugging Face folder, without network.

    Raises:
      GraftError: no `tokenizer.json`, no end-of-sequence token, or no chat template.
    """
    from transformers import AutoTokenizer

    folder = Path(folder)
    if not (folder / "tokenizer.json").is_file():
        raise GraftError(f"{folder}: has no tokenizer.json; give a backbone's Hugging Face folder")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the library raises bare exceptions for damaged files
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
    if not tokenizer.chat_template:
        raise GraftError(
            f"{folder}: the tokenizer has no chat template; choose an instruction-tuned backbone, "
            "or add chat_template to tokenizer_config.json"
        )
    return tokenizer


def end_of_plan_id(tokenizer: "PreTrainedTokenizerFast") -> int:
    """The id that ends a plan: the tokenizer's own end-of-sequence token."""
    return int(tokenizer.eos_token_id)


def entries(tokenizer: "PreTrainedTokenizerFast") -> int:
    """Number of ids the tokenizer knows; rows of the embedding from there on (up to V) are padding."""
    return len(tokenizer)


def encode_text(tokenizer: "PreTrainedTokenizerFast", text: str) -> list[int]:
    """Text as data: no part of it, `<|im_end|>` included, becomes a control token.

    Raises:
      GraftError: the tokenizer makes a control token of it all the same.
    """
    plain, control = _plain(tokenizer)
    ids = plain.encode(text, add_special_tokens=False).ids
    if not control.isdisjoint(ids):
        found = tokenizer.convert_ids_to_tokens(next(i for i in ids if i in control))
        raise GraftError(f"the text contains the control token {found!r}; remove it")
    return ids


def chat_frame(
    tokenizer: "PreTrainedTokenizerFast", system: str | None, user_turn: str = _SLOT
) -> tuple[list[int], list[int]]:
    """What the chat template puts around a query, as ids.

    A prompt is `prefix + encode_text(tokenizer, query) + suffix`, with the opening of the answer at its
    end. The template is rendered once, with a stand-in where the query goes.

    Args:
      tokenizer: from `load_tokenizer`.
      system: text of the system turn; where the template has no such role it heads the user turn. None:
        no system turn (some templates then put in one of their own).
      user_turn: the user turn's text, with "{query}" where the query stands.

    Raises:
      GraftError: the template fails, or does not show the user turn exactly once.
    """
    if user_turn.count(_SLOT) != 1:
        raise GraftError(f"the user turn {user_turn!r} must contain {_SLOT} exactly once")
    slot = _slots(1, f"{system}{user_turn}{tokenizer.chat_template}")[0]
    user = user_turn.replace(_SLOT, slot)
    rendered = None
    if system is not None:
        rendered = _rendered(
            tokenizer,
            [{"role": "system", "content": system}, {"role": "user", "content": user}],
            required=system.strip(),
        )
        user = f"{system}\n\n{user}" if system else user
    if rendered is None:
        rendered = _rendered(tokenizer, [{"role": "user", "content": user}])
    if rendered is None:
        raise GraftError("the chat template refuses a user turn; choose another backbone")
    prefix, suffix = _cut(tokenizer, rendered, [slot])
    return prefix, suffix


def _rendered(
    tokenizer: "PreTrainedTokenizerFast", messages: list[dict[str, str]], required: str = ""
) -> str | None:
    """The conversation as text; None where the template refuses it or leaves `required` out."""
    try:
        text = tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,  # Qwen3: the plan follows at once
            date_string=_DATE.strftime("%d %b %Y"),  # Llama-3
            strftime_now=_DATE.strftime,
        )
    except jinja2.TemplateError:
        return None
    return str(text) if required in text else None


def _cut(tokenizer: "PreTrainedTokenizerFast", text: str, slots: Sequence[str]) -> list[list[int]]:
    """Ids of the stretches of `text` between `slots` (one more than slots), control tokens on.

    The whole text is tokenised and cut by character offsets, so that the stretches' ids are those
    they have in their place.
    """
    for slot in slots:
        if text.count(slot) != 1:
            raise GraftError(
                f"the chat template shows a message {text.count(slot)} times instead of once; "
                "choose another backbone"
            )
    encoded = tokenizer._tokenizer.encode(text, add_special_tokens=False)
    starts = [text.index(slot) for slot in slots]
    edges = [0, *(e for at, slot in zip(starts, slots, strict=True) for e in (at, at + len(slot)))]
    edges.append(len(text))
    stretches = []
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        inside = [
            i for i, (a, b) in enumerate(encoded.offsets) if a >= start and b <= end and b > a
        ]
        first = encoded.offsets[inside[0]][0] if inside else end
        last = encoded.offsets[inside[-1]][1] if inside else end
        stretches.append(
            _loose(tokenizer, text[start:first])
            + [encoded.ids[i] for i in inside]
            + _loose(tokenizer, text[last:end])
        )
    return stretches


def _loose(tokenizer: "PreTrainedTokenizerFast", text: str) -> list[int]:
    """Ids of template text that shared a token with the stand-in, such as the space before it.

    Tokenizers that themselves put a space before a text (SentencePiece) need none for a space.
    """
    if not text or (text == " " and _adds_space(tokenizer)):
        return []
    return encode_text(tokenizer, text)


def _adds_space(tokenizer: "PreTrainedTokenizerFast") -> bool:
    return _plain(tokenizer)[0].encode("a", add_special_tokens=False).tokens[0] != "a"


def _slots(count: int, taken: str) -> list[str]:
    """Stand-ins that occur in no text of the prompt; letters only, so that templates leave them be."""
    stem = "xquery"
    while stem in taken:
        stem += "q"
    return [stem + "abcdefghij"[i] for i in range(count)]


@functools.lru_cache(maxsize=8)
def _plain(tokenizer: Any) -> tuple[tokenizers.Tokenizer, frozenset[int]]:
    """The tokenizer without its added tokens, and the ids that no text may become.

    Switching special tokens off is not enough: added tokens that are not marked special (Qwen's
    `<tool_call>`) would still be found in the text.
    """
    import json

    content = json.loads(tokenizer._tokenizer.to_str())
    added = content.pop("added_tokens", [])
    control = {entry["id"] for entry in added} | set(tokenizer.all_special_ids)
    content["added_tokens"] = []
    return tokenizers.Tokenizer.from_str(json.dumps(content)), frozenset(control)
