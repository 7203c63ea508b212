import json
import os
from pathlib import Path

import numpy as np
import pytest

from normscope.images.notation import escape, from_printable, printable

ORDINARY = [
    "a b/ü.png",
    "no\u00a0break",
    "\u3000wide",
    "家族👨\u200d👩\u200d👧.png",
    "می\u200cخواهم",
    "'\"$(x)`",
    "=1+1",
    "x\u00ad\ufeff",
]


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_names_stand_for_themselves(name):
    assert printable(Path(name)) == name
    assert from_printable(name) == Path(name)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a\nb\r\t", r"a\nb\r\t"),
        ("\x1b[1m\x7f\x85", r"\x1b[1m\x7f\x85"),
        ("a\\nb", r"a\\nb"),
        ("\\", r"\\"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("fdp\u202egnp.exe\u2066", r"fdp\u202egnp.exe\u2066"),
        (os.fsdecode(b"caf\xe9"), r"caf\udce9"),
        ("\U000e0001x", "\U000e0001x"),
    ],
)
def test_what_is_escaped(name, written):
    assert printable(name) == written
    assert from_printable(written) == Path(name)


def random_names(n):
    rng = np.random.default_rng(0)
    special = [*map(chr, range(1, 256)), *"\\\\\\\\nrtxuU\u00a0\u2028\u202e\u2066😀", *map(chr, range(0xDC80, 0xDD00))]
    special.remove("/")
    for length in rng.integers(1, 12, n):
        yield "".join(special[index] for index in rng.integers(0, len(special), length))
        raw = bytes(rng.integers(1, 256, length, dtype=np.uint8)).replace(b"/", b"\\")
        yield os.fsdecode(raw)


def test_every_name_is_on_one_line_and_can_be_read_back():
    names = [name for name in random_names(1000) if name not in (".", "..")]
    written = [printable(Path(name)) for name in names]
    assert [from_printable(text) for text in written] == [Path(name) for name in names]
    assert len(set(written)) == len(set(names))  # no two are written alike
    for text in written:
        assert len(text.splitlines()) == 1
        assert not any(ord(one) < 32 or 0x7F <= ord(one) < 0xA0 for one in text)
        assert json.loads(json.dumps(text)).encode("utf-8").decode("utf-8") == text


def test_what_an_ascii_terminal_escapes_is_read_back_too():
    name = "é家😀\n\\" + os.fsdecode(b"\xff")
    shown = printable(name).encode("ascii", "backslashreplace").decode()
    assert from_printable(shown) == Path(name)


def test_any_character_can_be_escaped():
    for character in "=+-@\t\\é家😀":
        assert from_printable(escape(character) + "x") == Path(character + "x")


@pytest.mark.parametrize("text", ["a\\", r"\y", r"\x1", r"\u12", r"\X41", r"\xZZ", r"a\ b"])
def test_a_backslash_that_begins_no_escape_is_refused(text):
    with pytest.raises(ValueError, match="backslash"):
        from_printable(text)
