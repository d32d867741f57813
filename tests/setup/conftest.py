from pathlib import Path

import pytest

from tests.setup.fake_checkout import FakeCheckout


@pytest.fixture
def checkout(tmp_path: Path) -> FakeCheckout:
    return FakeCheckout(tmp_path / "a check out")


@pytest.fixture(scope="package")
def lasting_checkout(tmp_path_factory: pytest.TempPathFactory) -> FakeCheckout:
    return FakeCheckout(tmp_path_factory.mktemp("lasting") / "a check out")


@pytest.fixture
def ready(lasting_checkout: FakeCheckout) -> FakeCheckout:
    """A checkout whose .venv is ready; kept from test to test, and repaired in between."""
    lasting_checkout.write_package()
    lasting_checkout.write_native()
    assert lasting_checkout.run("bin/smartpubsub").returncode == 0
    lasting_checkout.builds()
    return lasting_checkout
