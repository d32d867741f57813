"""What all charts have in common: the same figures give the same file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure


@contextmanager
def chart(path: Path, *, width: float, height: float) -> Iterator[Figure]:
    """A figure to draw on, which is then written."""
    # Text stays text in SVG, and neither chance nor the date gets in.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "smartpubsub"}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
