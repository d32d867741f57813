"""Values of TOML files as text, for error messages."""

from __future__ import annotations


def shown(value: object) -> str:
    """Describe a value that was found instead of another.

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
