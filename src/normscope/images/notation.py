r"""How paths are written in rows, reports and messages: on one line, and so that they can be read back.

Every character stands for itself, except

- the backslash, written `\\`;
- control characters, line and paragraph separators: `\n`, `\r`, `\t`, `\x1b`, `\u2028`;
- characters that change the direction of the text around them, which can make a name look like another: `\u202e`;
- bytes of a name that are not UTF-8, as Python holds them: the byte ff is `\udcff`.

So different paths are always written differently, and `from_printable` gives back the very path.
"""

import re
import unicodedata
from pathlib import Path

__all__ = ["cell", "escape", "from_printable", "printable"]

ESCAPED = {"Cc", "Cs", "Zl", "Zp"}  # Unicode's categories of controls, surrogates, line and paragraph separators
DIRECTIONS = {*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}
FORMULA = tuple("=+-@\t\r＝＋－＠")  # a spreadsheet takes a cell that begins with one of these for a formula
ESCAPE = re.compile(r"\\(?:[\\nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|)")
LETTERS = {r"\\": "\\", r"\n": "\n", r"\r": "\r", r"\t": "\t"}


def printable(path: Path | str) -> str:
    """The path in the notation of this module."""
    text = str(path)
    if text.isprintable() and "\\" not in text:  # nearly always
        return text
    return "".join(escape(one) if _special(one) else one for one in text)


def from_printable(text: str) -> Path:
    """The path that `printable` wrote; a backslash that begins no escape is a ValueError."""
    return Path(ESCAPE.sub(_character, text))


def cell(text: str) -> str:
    """Text for a CSV file: its first character is escaped if it would make a formula of the cell."""
    return escape(text[0]) + text[1:] if text[:1] in FORMULA else text


def escape(character: str) -> str:
    r"""Any character as an escape: `\x3d` for an equals sign."""
    code = ord(character)
    letter = {value: name for name, value in LETTERS.items()}.get(character)
    return letter or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def _special(character: str) -> bool:
    return character == "\\" or character in DIRECTIONS or unicodedata.category(character) in ESCAPED


def _character(found: re.Match[str]) -> str:
    name = found[0]
    if name == "\\":
        raise ValueError(f"{found.string!r} has a backslash that begins no escape; write it twice")
    return LETTERS.get(name) or chr(int(name[2:], 16))
