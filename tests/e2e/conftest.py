"""conftest.py - a real `lake serve` per test module, and the clients that talk to it."""
import pytest

import lake


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with lake.Server(tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture
def own_server(tmp_path):
    """A server of the test's own, for tests that kill it or fill its disk."""
    with lake.Server(tmp_path / "data") as running:
        yield running
