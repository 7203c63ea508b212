from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

from normscope.errors import SettingError
from normscope.settings import build, check_counts, parse, to_json

__all__ = ["LIMIT", "infonce", "jsd"]
LIMIT = 3


def infonce() -> float:
    return 1.0


def jsd() -> float:
    return 2.0


def private() -> float:
    return 3.0


Information = Callable[[], float]


@dataclass(frozen=True)
class Example:
    beta: float = 20.0
    epochs: int = 5
    clip: bool = True
    name: str = "a"
    size: Literal["small", "big"] = "small"
    bits: Literal[16, 32] = 32
    widths: tuple[int, ...] = (8, 16)
    tags: tuple[str, ...] = ()
    rate: float | Literal["auto"] = "auto"
    label: str | None = "x"
    limit: int | None = None
    information: Information = infonce
    extra: Information | None = infonce

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise SettingError("epochs must be at least 1; give epochs=1 or more")


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("beta=5", 5.0),
        (" beta = 5 ", 5.0),
        ("epochs=7", 7),
        ("clip=No", False),
        ("name=b=c", "b=c"),
        ("name=none", "none"),
        ("size=big", "big"),
        ("bits=16", 16),
        ("widths=1, 2,3", (1, 2, 3)),
        ("widths=", ()),
        ("tags=a,b", ("a", "b")),
        ("rate=0.5", 0.5),
        ("rate=auto", "auto"),
        ("label=None", None),
        ("limit=4", 4),
        ("limit=none", None),
        ("information=jsd", jsd),
        ("extra=none", None),
    ],
)
def test_text_becomes_the_annotated_type(assignment, value):
    read = getattr(parse(Example, [assignment]), assignment.partition("=")[0].strip())
    assert read == value
    assert type(read) is type(value)


def test_nothing_given_is_the_defaults():
    assert parse(Example, []) == build(Example, {}) == Example()


@pytest.mark.parametrize(
    ("assignments", "says"),
    [
        (["bta=5"], r"no setting 'bta'; did you mean 'beta'\? choose from beta, epochs, clip"),
        (["qqqq=5"], r"no setting 'qqqq'; choose from beta, epochs"),
        (["beta"], r"setting 'beta' has no value; write it as key=value"),
        (["beta=1", "beta=2"], r"setting 'beta' is given twice"),
        (["beta=abc"], r"setting 'beta' cannot be 'abc'; give a finite number"),
        (["beta=nan"], r"give a finite number"),
        (["rate=off"], r"cannot be 'off'; give a finite number or 'auto'"),
        (["epochs=1.0"], r"give a whole number"),
        (["clip=maybe"], r"give true or false"),
        (["size=huge"], r"give 'small' or 'big'"),
        (["bits=8"], r"give 16 or 32"),
        (["widths=1,x"], r"give a comma-separated list, each a whole number"),
        (["information=private"], r"cannot be 'private'; give one of infonce, jsd"),
        (["information=LIMIT"], r"give one of infonce, jsd"),
        (["extra=smile"], r"give one of infonce, jsd or none"),
        (["epochs=0"], r"epochs must be at least 1"),
    ],
)
def test_a_wrong_assignment_is_one_sentence(assignments, says):
    with pytest.raises(SettingError, match=says) as caught:
        parse(Example, assignments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("beta", "5"),
        ("beta", True),
        ("beta", float("nan")),
        ("beta", 10**400),
        ("epochs", 1.0),
        ("epochs", True),
        ("clip", 1),
        ("name", 3),
        ("size", "huge"),
        ("bits", 16.0),
        ("widths", 3),
        ("widths", ["a"]),
        ("tags", "ab"),
        ("information", private),
        ("information", None),
        ("nonsense", 3),
    ],
)
def test_a_python_or_json_value_of_the_wrong_type_is_refused(key, value):
    with pytest.raises(SettingError, match=key):
        build(Example, {key: value})


def test_python_values_are_taken_as_they_are_meant():
    built = build(Example, {"beta": 5, "epochs": np.int64(3), "information": jsd, "extra": "jsd", "widths": [1]})
    assert built == Example(beta=5.0, epochs=3, information=jsd, extra=jsd, widths=(1,))
    assert type(built.beta) is float
    assert type(built.epochs) is int


def test_json_round_trip():
    for settings in [Example(), Example(0.1, 1, False, "ü", "big", 16, (), ("p",), 0.3, None, 2, jsd, None)]:
        text = json.dumps(to_json(settings), allow_nan=False)
        assert build(Example, json.loads(text)) == settings
    assert to_json(Example())["information"] == "infonce"
    assert to_json(Example())["widths"] == [8, 16]
    assert list(to_json(Example())) == [field.name for field in dataclasses.fields(Example)]


def test_what_json_could_not_read_back_is_not_written():
    with pytest.raises(SettingError, match="information"):
        to_json(Example(information=private))
    with pytest.raises(SettingError, match="beta"):
        to_json(Example(beta=float("inf")))


def test_a_count_is_one_or_more_and_a_least_count_may_be_none():
    @dataclass(frozen=True)
    class Counts:
        epochs: int = 5
        least_steps: int = 400
        shift: int = 0

    check_counts(Counts(epochs=1, least_steps=0, shift=-3))
    for wrong, said in (
        ({"epochs": 0}, "'epochs' cannot be 0; give a whole number from 1 on"),
        ({"least_steps": -1}, "from 0 on"),
    ):
        with pytest.raises(SettingError, match=said):
            check_counts(Counts(**wrong))


def test_a_method_without_settings():
    @dataclass(frozen=True)
    class Nothing:
        pass

    assert to_json(parse(Nothing, [])) == {}
    with pytest.raises(SettingError, match="there are none"):
        parse(Nothing, ["beta=1"])
