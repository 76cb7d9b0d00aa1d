"""Tool names as text: a token a tool, and the text that starts a tool's row.

Users see raw names; a token's text is only how a tool is written in a tokenizer's vocabulary. Must
not know tokenizers or ids.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import count

from graft_jax.catalog.catalog import Tool

_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]")


def tool_tokens(names: Sequence[str], reserved: Collection[str] = ()) -> tuple[str, ...]:
    """The token text of every tool, `<Image_to_Text>`, in the order of `names`.

    Characters outside [A-Za-z0-9_.-] become `_`. Where several names come out the same, a name that
    is its own form keeps it and the others get a suffix made from the raw name, so that the result
    depends on the set of names and not on their order. `zip(names, tokens)` is the way back.

    Args:
      names: raw names, all different.
      reserved: texts that may not be used, such as a backbone's special tokens (`<s>`, `<pad>`).

    Raises:
      ValueError: a name stands twice.
    """
    if len(set(names)) < len(names):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise ValueError(f"names must be all different; {twice!r} stands twice")
    plain = {name: f"<{_FOREIGN.sub('_', name)}>" for name in names}
    users = Counter(plain.values())
    forbidden = set(reserved)
    tokens = {
        name: token
        for name, token in plain.items()
        if token not in forbidden and (users[token] == 1 or token == f"<{name}>")
    }
    colliding = [name for name in names if name not in tokens]
    taken = forbidden.union(tokens.values())
    # Suffixes that meet by chance, or a name that looks like one, only cost another attempt.
    for attempt in count():
        suffixed = {name: f"{plain[name][:-1]}.{_digest(name, attempt)}>" for name in colliding}
        if len(set(suffixed.values())) == len(suffixed) and taken.isdisjoint(suffixed.values()):
            break
    tokens |= suffixed
    return tuple(tokens[name] for name in names)


def text_of(tool: Tool) -> str:
    """ "name: description", or the name alone: the text whose mean row a tool's row starts from."""
    return f"{tool.name}: {tool.description}" if tool.description.strip() else tool.name


def _digest(name: str, attempt: int) -> str:
    return hashlib.sha256(f"{attempt} {name}".encode()).hexdigest()[:8]
