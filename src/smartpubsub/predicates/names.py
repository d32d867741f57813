"""Attribute names: words of any script, everything else percent-encoded."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote_to_bytes

NAME_BYTES_MAX = 1024

_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")


def is_name_character(character: str) -> bool:
    """Whether a character stands for itself in a written name."""
    # Marks are parts of letters in many scripts, so they travel with the letters.
    return (
        character.isalnum() or character in "._-" or unicodedata.category(character).startswith("M")
    )


def encode_name(name: str) -> str:
    """Encode a name for use in a predicate.

    >>> encode_name("são paulo/sp")
    'são%20paulo%2Fsp'
    """
    if _PLAIN.fullmatch(name):
        return name
    return "".join(c if is_name_character(c) else _escaped(c) for c in name)


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def written_length(text: str, start: int) -> int:
    """Count the characters from `start` on that belong to a written name."""
    plain = _PLAIN.match(text, start)
    position = plain.end() if plain else start
    while position < len(text):
        if is_name_character(text[position]):
            position += 1
        elif _ESCAPE.match(text, position):
            position += 3
        else:
            break
    return position - start


def decode_name(written: str) -> str:
    """Decode a written name; raise ValueError if its bytes are not UTF-8."""
    if "%" not in written:
        return written
    try:
        return unquote_to_bytes(written).decode()
    except UnicodeDecodeError:
        raise ValueError("the percent-encoded bytes of this name are not UTF-8") from None


def check_name(name: str) -> None:
    """Raise ValueError if a name is not allowed."""
    if not name:
        raise ValueError("a name is empty")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ValueError("a name contains half of a surrogate pair") from None
    if size > NAME_BYTES_MAX:
        raise ValueError(f"a name has at most {NAME_BYTES_MAX} bytes, this one has {size}")
