"""The common part of all charts: equal figures give equal files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure


@contextmanager
def chart(path: Path, *, width: float, height: float) -> Iterator[Figure]:
    """A figure to draw on, which is then written."""
    # Text stays text in SVG, and the file contains neither random ids nor the date.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "smartpubsub"}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        figure.savefig(path, dpi=120, metadata={"Date": None} if path.suffix == ".svg" else None)
