"""The error for a predicate that cannot be parsed."""

from smartpubsub.errors import SmartPubSubError

FOUND_CHARACTERS_MAX = 40
POINTER_CHARACTERS_MAX = 70


def shown(found: str) -> str:
    """The text found at a place, shortened to fit in a line.

    >>> shown("nan"), shown("")
    ("'nan'", 'the end')
    """
    if not found:
        return "the end"
    cut = len(found) > FOUND_CHARACTERS_MAX
    return f"{found[:FOUND_CHARACTERS_MAX]!r}{'...' if cut else ''}"


class PredicateError(SmartPubSubError, ValueError):
    """A predicate that cannot be parsed: the column, and what was expected there."""

    is_usage_error = True

    def __init__(self, problem: str, *, text: str | None = None, column: int | None = None) -> None:
        super().__init__(problem if column is None else f"column {column}: {problem}")
        self.problem = problem
        self.text = text
        self.column = column

    def pointer(self) -> str:
        """The place with a caret below it, for a terminal; empty if there is no column."""
        if self.text is None or self.column is None:
            return ""
        # Only the surroundings, without characters that would move the caret or control the
        # terminal.
        start = max(0, self.column - 1 - POINTER_CHARACTERS_MAX // 2)
        near = self.text[start : start + POINTER_CHARACTERS_MAX]
        shown_text = "".join(c if c.isprintable() else "?" for c in near)
        return f"  {shown_text}\n  {' ' * (self.column - 1 - start)}^"
