"""Float32 within the context, and the process's settings as they were after it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest
import torch

from antiphon.nn.precision import exact_float32, tf32_products


def settings() -> tuple[bool, str]:
    return torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()


@pytest.fixture
def loose() -> Iterator[None]:
    before = settings()
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    yield
    torch.backends.cudnn.allow_tf32, precision = before
    torch.set_float32_matmul_precision(precision)


def test_settings_are_exact_inside_and_restored_even_by_a_failure(loose: None) -> None:
    def fail() -> None:
        with exact_float32():
            with exact_float32():
                assert settings() == (False, "highest")
            assert settings() == (False, "highest")
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        fail()
    assert settings() == (True, "high")


def test_products_alone_are_rounded_inside() -> None:
    before = settings()
    with exact_float32():
        with tf32_products():
            assert settings() == (False, "high")
        assert settings() == (False, "highest")
    assert settings() == before


def test_whoever_comes_second_does_not_find_the_first_ones_settings_restored(loose: None) -> None:
    is_inside, may_leave, both = Event(), Event(), Barrier(2)

    def first() -> None:
        with exact_float32():
            is_inside.set()
            assert may_leave.wait(60)

    def second() -> tuple[bool, str]:
        assert is_inside.wait(60)
        both.wait(60)
        with exact_float32():
            return settings()

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(first), pool.submit(second)
        both.wait(60)
        may_leave.set()
        one.result()
        assert other.result() == (False, "highest")
    assert settings() == (True, "high")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_convolution_on_a_gpu_is_that_of_the_cpu(loose: None) -> None:
    generator = torch.Generator().manual_seed(0)
    waves = torch.randn(1, 256, 512, generator=generator)
    weight = torch.randn(256, 256, 7, generator=generator)
    exact = torch.nn.functional.conv1d(waves.double(), weight.double()).float()
    with exact_float32():
        ours = torch.nn.functional.conv1d(waves.cuda(), weight.cuda()).cpu()
    assert (ours - exact).abs().max() / exact.abs().max() < 1e-5
