"""Errors of the pipeline, each as one line with a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, PythonException

from smartpubsub.errors import SmartPubSubError

# The last line of a traceback: the class of the exception and its message.
_RAISED = re.compile(r"^(?P<room>(?:\w+\.)*)\w+(?:Error|Exception|Interrupt): (?P<said>.+)$", re.M)
_CAUSED_BY = re.compile(r"^(?:Caused by: )?[\w.$]*(?:Error|Exception): (?P<said>.+)$", re.M)


class PipelineError(SmartPubSubError):
    """A stage has failed; the text says what to do about it."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn an exception of Spark, which has many lines, into the line that matters."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise PipelineError(plain_text(error)) from None


def plain_text(error: PySparkException | Py4JError) -> str:
    """The line that names the cause.

    For a Python worker it is the last line of the traceback, for Java the last cause.
    """
    text = _full_text(error)
    raised = [*_RAISED.finditer(text)]
    if raised and (isinstance(error, PythonException) or "Traceback" in text):
        # Spark prints some tracebacks as the text of a string.
        return raised[-1]["said"].rstrip().removesuffix("\\n'")
    causes = [*_CAUSED_BY.finditer(text)]
    if causes:
        return causes[-1]["said"]
    return next(iter(text.strip().splitlines()), type(error).__name__)


def own_text(error: BaseException | None) -> str | None:
    """The text of an error of this package, also of one that Spark reports; None for others."""
    if isinstance(error, SmartPubSubError):
        return str(error)
    if not isinstance(error, PySparkException | Py4JError):
        return None
    raised = [*_RAISED.finditer(_full_text(error))]
    is_ours = bool(raised) and raised[-1]["room"].startswith("smartpubsub.")
    return plain_text(error) if is_ours else None


def _full_text(error: PySparkException | Py4JError) -> str:
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.toString() + "\n" + str(error))
    return str(error)
