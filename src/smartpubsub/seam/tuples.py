"""How the most frequent objects are made."""

from __future__ import annotations

made = tuple.__new__
"""Make a `NamedTuple` from its class and a tuple of all its values.

Calling the class takes twice as long. That is measurable for what a node makes tens of times for an
event: effects, decoded messages, and acknowledgements that come as ranges.
Call the class elsewhere.
"""
