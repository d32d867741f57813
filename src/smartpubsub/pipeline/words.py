"""Values of TOML files in words, for messages about them."""

from __future__ import annotations


def shown(value: object) -> str:
    """What was found where something else should be.

    >>> shown("x"), shown(True), shown({"a": 1, "b": 2}), shown([]), shown(1.5)
    ("'x'", 'true', 'a table of a, b', 'a list', '1.5')
    """
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return f"a table of {', '.join(value) or 'nothing'}"
    return "a list" if isinstance(value, list) else str(value)
