"""Tool tokens: distinct, stable, found in text exactly where they stand."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graft_jax.catalog import Tool
from graft_jax.catalog.names import text_of, tool_tokens

ODD = (
    "calendar.read",
    "user-profile/update",
    "<<<h1>name</h1>&&qsds>>",
    "👋 Demo",
    "/1/cosigner/<script_hash>",
    "/1/cosigner/{script_hash}",
    "x" * 150,
    "search-a",
    "search_a",
    "search a",
    "Search_a",
    "Text",
    "Text to Image",
    "天气",
    "新闻",
    "files/search",
    "mail/search",
    "end\n",
    "end_",
    "s",
)
names = st.lists(
    st.sampled_from(ODD)
    | st.text(alphabet="aA_-. /<>é", min_size=1, max_size=6)
    | st.text(min_size=1),
    unique=True,
    min_size=1,
    max_size=12,
)


def test_plain_names_read_as_in_the_design():
    assert tool_tokens(["Image-to-Text", "Image to Text!", "calendar.read"]) == (
        "<Image-to-Text>",
        "<Image_to_Text_>",
        "<calendar.read>",
    )


@settings(deadline=None)
@given(names)
def test_tokens_are_distinct_well_formed_and_tell_the_names(some):
    tokens = tool_tokens(some)
    assert len(set(tokens)) == len(tokens) == len(some)
    assert all(re.fullmatch(r"<[A-Za-z0-9_.-]*>", token) for token in tokens)
    back = dict(zip(tokens, some, strict=True))
    assert [back[token] for token in tokens] == some


@settings(deadline=None)
@given(names, st.randoms(use_true_random=False))
def test_tokens_depend_on_the_set_of_names_not_on_their_order(some, random):
    shuffled = random.sample(some, len(some))
    by_name = dict(zip(some, tool_tokens(some), strict=True))
    assert tool_tokens(shuffled) == tuple(by_name[name] for name in shuffled)


def test_suffixes_are_the_same_in_every_process():
    first, second = tool_tokens(["search a", "search_a"])
    assert second == "<search_a>"
    assert first == "<search_a.666e5bc5>"


def test_a_name_that_looks_like_a_suffixed_one_changes_no_other_property():
    suffixed = tool_tokens(["search a", "search/a"])
    some = ["search a", "search/a", *(token[1:-1] for token in suffixed)]
    tokens = tool_tokens(some)
    assert len(set(tokens)) == 4
    assert tokens[2:] == suffixed


def test_reserved_texts_are_not_used():
    tokens = tool_tokens(["s", "pad", "find"], reserved=["<s>", "<pad>", "</s>"])
    assert tokens[2] == "<find>"
    assert not {"<s>", "<pad>"} & set(tokens)
    assert tokens[0].startswith("<s.")


def test_a_name_that_stands_twice_is_refused():
    with pytest.raises(ValueError, match="'b' stands twice"):
        tool_tokens(["a", "b", "b"])


def test_the_text_of_a_tool():
    assert text_of(Tool("find", "Finds a thing.")) == "find: Finds a thing."
    assert text_of(Tool("find")) == "find"
