"""One Spark session for all tests of the pipeline, since starting it takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from smartpubsub.pipeline import little, progress
from smartpubsub.pipeline.sessions import SessionOptions, spark_session

# Tables of tests are tiny, so what takes time is to plan, to compile and to start tasks.
QUICK = (
    *little.QUICK.items(),
    ("spark.driver.extraJavaOptions", little.JAVA),
    # Java may have been started by an earlier test, in a folder where no models of tests are.
    ("spark.executorEnv.PYTHONPATH", str(Path(__file__).parents[2])),
)


@pytest.fixture(autouse=True)
def no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a command would say between its other lines how far it is."""
    monkeypatch.setattr(progress, "TELL_EVERY_S", 86_400.0)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session, which commands that are run in this process use too."""
    with spark_session(SessionOptions(memory_mb=1024, settings=QUICK)) as session:
        yield session


@pytest.fixture
def large(spark: SparkSession) -> Iterator[None]:
    """No input is little, so tasks do what the driver would do."""
    spark.conf.set(little.LITTLE, "0")
    yield
    spark.conf.unset(little.LITTLE)


@pytest.fixture(params=["little", "large"])
def size(request: pytest.FixtureRequest) -> None:
    """Both sizes."""
    if request.param == "large":
        request.getfixturevalue("large")
