"""What bounds a model: nothing is said without a GPU, and on one the figures make sense."""

import pytest
import torch

from antiphon.contracts.family import Product
from antiphon_bench.bound import measure_bound

PRODUCTS = [Product("a", 256, 128), Product("b", 128, 256, 2), Product("a", 256, 128)]


def test_without_a_gpu_there_is_no_bound() -> None:
    assert measure_bound("cpu", PRODUCTS, [1]) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_gpu_is_measured() -> None:
    bound = measure_bound("cuda", PRODUCTS, [1, 64])
    assert bound is not None
    assert bound["copy_gb_per_s"] > 0
    assert set(bound["products_ms"]) == {"1", "64"}
    assert bound["num_products"] == 3
