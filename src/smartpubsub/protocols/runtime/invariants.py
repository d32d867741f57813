"""The invariants of all components of a protocol."""

from __future__ import annotations


def check_components(core: object) -> None:
    """Call `check` of each component that a protocol's core has as an attribute."""
    for component in vars(core).values():
        check = getattr(component, "check", None)
        if check is not None:
            check()
