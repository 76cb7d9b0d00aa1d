"""Whether a value is what its type hint says, all the way down: for what other hands wrote.

One walk for settings and for JSON. Knows no file and no flag; imports nothing of the project.
"""

import dataclasses
import functools
import numbers
import reprlib
import sys
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints, is_typeddict

_WORDS: dict[Any, str] = {
    str: "a text",
    int: "a whole number of 64 bits",
    float: "a finite number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
    tuple: "a tuple",
}
_hints: Callable[[Any], dict[str, Any]] = functools.cache(get_type_hints)


class Misfit(NamedTuple):
    """A part that is not what it must be: the keys that lead to it, what it is, what it must be."""

    path: tuple[str, ...]
    value: Any
    wanted: str

    def __str__(self) -> str:
        return f"{'.'.join(self.path)} is {self.said}; it must be {self.wanted}".lstrip()

    @property
    def said(self) -> str:
        """The value, not longer and not deeper than a message takes."""
        return reprlib.repr(self.value)


def misfit(value: Any, hint: Any, path: tuple[str, ...] = ()) -> Misfit | None:
    """The first part of `value` that does not fit `hint`; None where all do.

    Hints: Any, bool, int, float (takes whole numbers; neither nan nor infinity), str, Literal,
    `X | None`, list[X], tuple[X, ...], dict[str, X], a TypedDict (a key that is missing is None,
    others are let be) and a dataclass.
    """
    if hint is Any:
        return None
    if type(None) in get_args(hint):
        (hint,) = set(get_args(hint)) - {type(None)}
        return None if value is None else misfit(value, hint, path)
    if not _fits(value, hint):
        return Misfit(path, value, _words(hint))
    found = (misfit(part, kind, (*path, key)) for key, part, kind in _parts(value, hint))
    return next(filter(None, found), None)


def is_number(value: Any) -> bool:
    """A finite number, whole or not, that a float can hold. True and False are none."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max


def is_whole(value: Any) -> bool:
    """A whole number, NumPy's among them. True and False are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _fits(value: Any, hint: Any) -> bool:
    """Whether the outermost layer of `value` is of the hint's kind."""
    if hint is float:
        return is_number(value)
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if hint is int:
        return type(value) is int and -(2**63) <= value < 2**63
    return isinstance(value, _kind(hint))


def _words(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(repr, get_args(hint)))}"
    return _WORDS.get(_kind(hint)) or f"a {hint.__name__}(...)"


def _kind(hint: Any) -> type:
    return dict if is_typeddict(hint) else get_origin(hint) or hint


def _parts(value: Any, hint: Any) -> list[tuple[str, Any, Any]]:
    """(key, part, the part's hint) of what `value` holds."""
    if dataclasses.is_dataclass(hint):
        return [(name, getattr(value, name), kind) for name, kind in _hints(hint).items()]
    if is_typeddict(hint):
        return [(name, value.get(name), kind) for name, kind in _hints(hint).items()]
    if get_origin(hint) is dict:
        return [(key, part, get_args(hint)[1]) for key, part in value.items()]
    if get_origin(hint) in (list, tuple):
        return [(str(place), part, get_args(hint)[0]) for place, part in enumerate(value)]
    return []
