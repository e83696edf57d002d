"""A Ray cluster of several nodes on this host."""

from collections.abc import Generator

import pytest

from tests.fabric.cluster.ray_nodes import RayNodes, ray_nodes


@pytest.fixture(scope="module")
def nodes() -> Generator[RayNodes, None, None]:
    with ray_nodes() as running:
        yield running
