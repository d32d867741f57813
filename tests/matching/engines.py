"""The engines under test, and the marks for tests that need the native one."""

import pytest

from smartpubsub.matching.index import EngineName
from smartpubsub.matching.native_engine import is_available

needs_native = pytest.mark.skipif(not is_available(), reason="the native module is not installed")

BOTH = [pytest.param("python"), pytest.param("native", marks=needs_native)]
INSTALLED: list[EngineName] = ["python", "native"] if is_available() else ["python"]
