"""No text becomes a control token; prompts built from ids are the chat template's prompts."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from graft_jax.errors import GraftError
from graft_jax.io.tokenizer import (
    chat_frame,
    encode_text,
    ending_plans,
    entries,
    load_tokenizer,
)

SYSTEM = "Choose tools."
QUERY = "Turn the lights off"

# Written for these tests, each in the manner of a family.
CHATML_DEFAULT = (  # puts in a system turn of its own where there is none
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}"
    "<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
DATED = (  # prints the date into the system turn, trims contents
    "{{ bos_token }}{% if not date_string is defined %}"
    "{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n\n"
    "{% if loop.first %}Today: {{ date_string }} {{ strftime_now('%d %B %Y') }}\n{% endif %}"
    "{{ m['content'] | trim }}<|im_end|>{% endfor %}<|im_start|>assistant\n\n"
)
THINKING = (  # opens the answer with a thought unless told not to think
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
    "{% endif %}"
)
ALTERNATING = (  # has no system role and says so
    "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]"
    "{% else %}{{ m['content'] }}{{ eos_token }}{% endif %}{% endfor %}"
)
DEAF = (  # has no system role and leaves such a turn out in silence
    "{% for m in messages %}{% if m['role'] != 'system' %}{{ m['role'] }}: {{ m['content'] }}\n"
    "{% endif %}{% endfor %}assistant:"
)
LAST_TURN = (  # moves the system text into the last user turn
    "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}"
    "{% set messages = messages[1:] %}{% endif %}{{ bos_token }}{% for m in messages %}"
    "{% if m['role'] == 'user' %}[INST] {% if loop.last and system is defined %}"
    "{{ system }}\n\n{% endif %}{{ m['content'] }}[/INST]{% else %} {{ m['content'] }}"
    "{{ eos_token }}{% endif %}{% endfor %}"
)
TEMPLATES = {
    "chatml": CHATML_DEFAULT,
    "dated": DATED,
    "thinking": THINKING,
    "alternating": ALTERNATING,
    "deaf": DEAF,
    "last_turn": LAST_TURN,
}

Load = Callable[..., Any]


@pytest.fixture
def load(tmp_path: Path, bpe: Load, write_tokenizer: Load) -> Load:
    def load(plain_added: tuple[str, ...] = (), **config: Any) -> Any:
        write_tokenizer(tmp_path, bpe(plain_added=plain_added), **config)
        return load_tokenizer(tmp_path)

    return load


def sentencepiece() -> Tokenizer:
    """Puts a space before every text, as SentencePiece's conversions do; one entry a character."""
    letters = ["<unk>", "<s>", "</s>", *"▁abcdefghijklmnopqrstuvwxyzTCQINST[]/.:\n0123456789"]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys(letters))}
    merges = [("▁", letter) for letter in letters[4:30]]
    vocabulary |= {f"▁{letter}": len(vocabulary) + i for i, (_, letter) in enumerate(merges)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in ("<s>", "</s>")])
    return tokenizer


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("system", [SYSTEM, None, ""])
def test_prompts_from_ids_are_the_templates_prompts(
    load: Load, name: str, system: str | None
) -> None:
    tokenizer = load(chat_template=TEMPLATES[name], bos_token="<|endoftext|>")
    prefix, suffix = chat_frame(tokenizer, system)
    text = tokenizer.decode(prefix + encode_text(tokenizer, QUERY) + suffix)
    assert QUERY in text
    assert (system or "") in text
    if name != "dated" and (name in ("chatml", "thinking") or system is None):
        messages = [{"role": "user", "content": QUERY}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        assert text == tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=False,
        )
    if name in ("alternating", "deaf") and system:
        assert f"{system}\n\n{QUERY}" in text


# In the others a space stands before the query; byte-level BPE would join it with the first word.
@pytest.mark.parametrize("name", ["chatml", "dated", "thinking"])
def test_ids_are_those_of_the_whole_text(load: Load, name: str) -> None:
    tokenizer = load(chat_template=TEMPLATES[name], bos_token="<|endoftext|>")
    prefix, suffix = chat_frame(tokenizer, SYSTEM)
    ids = prefix + encode_text(tokenizer, QUERY) + suffix
    assert ids == tokenizer.encode(tokenizer.decode(ids), add_special_tokens=False)


@pytest.mark.parametrize("name", ["alternating", "last_turn"])
def test_ids_are_those_of_the_whole_text_where_texts_get_a_space(
    tmp_path: Path, write_tokenizer: Load, name: str
) -> None:
    write_tokenizer(
        tmp_path,
        sentencepiece(),
        chat_template=TEMPLATES[name],
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )
    tokenizer = load_tokenizer(tmp_path)
    prefix, suffix = chat_frame(tokenizer, None)
    closing = " [/INST]" if name == "alternating" else "[/INST]"
    whole = tokenizer.encode(f"<s>[INST] turn lights off{closing}", add_special_tokens=False)
    assert prefix + encode_text(tokenizer, "turn lights off") + suffix == whole


def test_the_user_turn_may_have_words_around_the_query(load: Load) -> None:
    tokenizer = load()
    prefix, suffix = chat_frame(tokenizer, SYSTEM, "Query: {query}\nPlan:")
    assert tokenizer.decode(prefix).endswith("user\nQuery: ")
    assert tokenizer.decode(suffix) == "\nPlan:<|im_end|>\n<|im_start|>assistant\n"
    with pytest.raises(GraftError, match="exactly once"):
        chat_frame(tokenizer, SYSTEM, "Query:")


def test_the_date_is_the_same_on_any_day(load: Load) -> None:
    own_words = DATED.replace("date_string is", "words is")
    for template in (DATED, own_words):
        tokenizer = load(chat_template=template)
        text = tokenizer.decode(chat_frame(tokenizer, SYSTEM)[0])
        assert "Today: 26 Jul 2024 26 July 2024\n" in text


def test_control_tokens_stand_in_the_frame_as_ids(load: Load) -> None:
    tokenizer = load()
    prefix, suffix = chat_frame(tokenizer, SYSTEM)
    start, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    assert prefix.count(start) == 2
    assert (suffix[0], suffix.count(start)) == (end, 1)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.sampled_from(["<|im_end|>", "<|im_start|>", "<tool_call>", "<|endoftext|>", " ", "\n"])
        | st.text(st.characters(exclude_categories=["Cs"]))
    ).map("".join)
)
def test_text_stays_text(tokenizer_with_calls: Any, text: str) -> None:
    ids = encode_text(tokenizer_with_calls, text)
    assert tokenizer_with_calls.decode(ids, skip_special_tokens=True) == text
    assert not {0, 1, 2, entries(tokenizer_with_calls) - 1} & set(ids)


@pytest.fixture(scope="session")
def tokenizer_with_calls(tmp_path_factory: pytest.TempPathFactory, bpe: Load) -> Any:
    """Its `<tool_call>` is an added token that is not marked special."""
    folder = tmp_path_factory.mktemp("calls")
    bpe(plain_added=("<tool_call>",)).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", '
        '"clean_up_tokenization_spaces": false, "chat_template": "{{ messages[0].content }}"}'
    )
    return load_tokenizer(folder)


def test_encode_text_leaves_the_tokenizer_as_it_was(load: Load) -> None:
    tokenizer = load()
    before = tokenizer.encode("<|im_end|>", add_special_tokens=False)
    encode_text(tokenizer, "<|im_end|>")
    assert tokenizer.encode("<|im_end|>", add_special_tokens=False) == before == [2]


@pytest.mark.parametrize("system", [SYSTEM, None])
@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ messages[-1]['content'] }}{{ messages[-1]['content'] }}", "2 times"),
        ("nothing", "0 times"),
        ("{{ raise_exception('not today') }}", "fails .*not today"),
        ("{{ messages[0].nowhere.at.all }}", "fails .*nowhere"),
        ("{% for m in messages %}", "fails .*TemplateSyntaxError"),
        ("{{ 1 + 'a' }}", "fails .*TypeError"),
        ("{{ 1 // 0 }}", "fails .*ZeroDivisionError"),
    ],
)
def test_templates_that_cannot_frame_a_query_are_refused_with_their_folder(
    load: Load, tmp_path: Path, system: str | None, template: str, words: str
) -> None:
    with pytest.raises(GraftError, match=f"^{tmp_path}: .*{words}"):
        chat_frame(load(chat_template=template), system)


def test_end_of_plan_is_the_eos_token(load: Load) -> None:
    tokenizer = load(pad_token="<|im_end|>")
    spec = tiny.make_spec(eos_ids=(7, 2, 9))
    assert ending_plans(spec, tokenizer).end_id == 2
    assert set(ending_plans(spec, tokenizer).eos_ids) == {2, 7, 9}
    assert entries(tokenizer) == len(tokenizer)


@pytest.mark.parametrize("missing", ["eos_token", "chat_template"])
def test_what_is_missing_is_named(load: Load, missing: str) -> None:
    with pytest.raises(GraftError, match=missing.replace("_", ".")):
        load(**{missing: None})


def test_damaged_and_missing_files_are_named(load: Load, tmp_path: Path) -> None:
    with pytest.raises(GraftError, match=r"tokenizer\.json"):
        load_tokenizer(tmp_path / "nowhere")
    load()
    (tmp_path / "tokenizer.json").write_text('{"version": ')
    with pytest.raises(GraftError, match="cannot be read"):
        load_tokenizer(tmp_path)


def test_loading_says_nothing(load: Load, caplog: Any, capsys: Any) -> None:
    with caplog.at_level(logging.WARNING):
        load()
    assert not caplog.records
    assert capsys.readouterr() == ("", "")
