"""Settings that make stages quick on small inputs.

On little data, nearly all time goes into compiling: Java compiles Spark, Spark compiles each query,
and plans are revised while they run. None of that pays below some megabytes. The results are the
same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from smartpubsub.pipeline.errors import PipelineError
from smartpubsub.pipeline.folders import Folder, MaybeSpark

LITTLE = "spark.smartpubsub.littleBytes"
"""The setting for the size up to which inputs are little."""
LITTLE_BYTES = 1 << 20
"""The default: up to some hundred thousand rows, as they are compressed."""
CHOSEN = "spark.smartpubsub.chosen"
"""The setting that lists the settings chosen by the user."""
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java's options: compile fast instead of well, and collect garbage with one thread."""
QUICK = {
    # Running a query of a few rows takes less time than compiling it.
    "spark.sql.codegen.wholeStage": "false",
    # A plan is made once.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


class NeedsSparkError(Exception):
    """A stage that was called without a session needs one."""


def is_little(spark: MaybeSpark, paths: Sequence[str]) -> bool:
    """Whether inputs are so small that the settings for little data pay."""
    default = str(LITTLE_BYTES)
    limit = default if spark is None else str(spark.conf.get(LITTLE, default))
    if not limit.isdecimal():
        raise PipelineError(f"{LITTLE} is a number of bytes, not {limit!r}")
    return sum(Folder(spark, path).bytes() for path in paths) <= int(limit)


@contextmanager
def sized(spark: MaybeSpark, paths: Sequence[str]) -> Iterator[bool]:
    """Set the session to the size of a stage's inputs, and yield whether they are little.

    Settings that a user has chosen stay as they are.
    """
    is_small = is_little(spark, paths)
    if spark is None and not is_small:
        raise NeedsSparkError
    if spark is None or not is_small:
        yield is_small
        return
    chosen = str(spark.conf.get(CHOSEN, "")).split(",")
    changed = {name: value for name, value in QUICK.items() if name not in chosen}
    before = {name: str(spark.conf.get(name)) for name in changed}
    try:
        for name, value in changed.items():
            spark.conf.set(name, value)
        yield True
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
