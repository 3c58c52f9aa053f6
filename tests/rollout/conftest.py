"""conftest.py - an instance per test module, a store of its own per test, and the published references."""
import itertools

import pytest

import oracle
import rollout

numbers = itertools.count()


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    with rollout.Instance(tmp_path_factory.mktemp("instance")) as running:
        yield running


@pytest.fixture
def store(instance):
    """An empty store of the module's instance."""
    name = f"s{next(numbers)}"
    instance.create(name)
    return name


@pytest.fixture(scope="module", params=["0.6.3", "0.6.7"])
def reference(request):
    """Each of the published stores in turn."""
    with oracle.Oracle(request.param) as running:
        yield running


@pytest.fixture(scope="module")
def context063():
    with oracle.Oracle("0.6.3") as running:
        yield running


@pytest.fixture(scope="module")
def context067():
    with oracle.Oracle("0.6.7") as running:
        yield running
