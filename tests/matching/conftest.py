import pytest

from smartpubsub.matching.index import EngineName
from tests.matching.engines import BOTH


@pytest.fixture(params=BOTH)
def engine(request: pytest.FixtureRequest) -> EngineName:
    name: EngineName = request.param
    return name
