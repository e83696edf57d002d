"""How the networks of tests are computed."""

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _tiny_products_on_one_core() -> None:
    """Tiny products are slower on several cores, much slower where other programs run too."""
    torch.set_num_threads(1)
