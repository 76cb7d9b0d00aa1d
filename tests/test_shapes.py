"""Values are told from what their hints say, at any depth, and the place is named."""

import dataclasses
from typing import Any, Literal, TypedDict

import pytest

from graft_jax.shapes import is_number, misfit


class Row(TypedDict):
    step: int
    rate: float | None


@dataclasses.dataclass
class Settings:
    names: tuple[str, ...] = ("a",)
    kind: Literal["x", "y"] = "x"
    on: bool = True


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ({"step": 1, "rate": None, "other": object()}, Row),
        ({"step": 1}, Row),
        ({"a": [{"step": 1, "rate": 2}], "b": []}, dict[str, list[Row]]),
        (Settings(), Settings),
        (object(), Any),
    ],
)
def test_what_fits_is_let_be(value: Any, hint: Any) -> None:
    assert misfit(value, hint) is None


@pytest.mark.parametrize(
    ("value", "hint", "said"),
    [
        ([], Row, "is []; it must be an object"),
        ({}, Row, "step is None; it must be a whole number of 64 bits"),
        ({"step": True}, Row, "step is True; it must be a whole number"),
        ({"step": 2**63}, Row, "step is 9223372036854775808; it must be"),
        ({"step": 1, "rate": float("nan")}, Row, "rate is nan; it must be a finite number"),
        ({"a": [1, "2"]}, dict[str, list[int]], "a.1 is '2'"),
        (Settings(names=["a"]), Settings, "names is ['a']; it must be a tuple"),  # type: ignore
        (Settings(kind="z"), Settings, "kind is 'z'; it must be one of 'x', 'y'"),  # type: ignore
        (Settings(on=1), Settings, "on is 1; it must be true or false"),  # type: ignore
        (None, Settings, "is None; it must be a Settings(...)"),
    ],
)
def test_what_does_not_fit_is_named_by_its_place(value: Any, hint: Any, said: str) -> None:
    assert said in str(misfit(value, hint))


def test_numbers_are_finite_and_no_truth_values() -> None:
    assert is_number(0)
    assert is_number(-1.5)
    for odd in (True, None, "1", float("inf"), float("nan"), 10**400, -(10**400)):
        assert not is_number(odd)
