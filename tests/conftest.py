"""What all tests rely on."""

import logging
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Property tests look for wrong answers here, not for slow machines.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# A shell that starts the tests in the background has them ignore Ctrl-C, and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_failure_is_contained(request: pytest.FixtureRequest) -> Iterator[None]:
    """A live node survives a defect that a message reveals; a test must not."""
    found: list[logging.LogRecord] = []

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    watch, log = Watch(logging.ERROR), logging.getLogger("smartpubsub.node.transport.containment")
    log.addHandler(watch)
    yield
    log.removeHandler(watch)
    if found and not request.node.get_closest_marker("contains_failures"):
        pytest.fail("\n".join(logging.Formatter().format(record) for record in found))
