"""Hardware bounds of a model's times: memory copies, and a frame's matrix products alone.

Both are measured in the same run as the model, on the same card. No engine is faster than its
matrix products alone, and none reads weights faster than memory is copied.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from antiphon.contracts.family import Product

if TYPE_CHECKING:
    import torch

_COPY_BYTES = 2 << 30
_NUM_RUNS = 20


def measure_bound(
    device: str, products: Sequence[Product], batches: Sequence[int]
) -> dict[str, Any] | None:
    """Measure a GPU at each batch size; ``None`` without a GPU. The figures are ready for JSON."""
    import torch

    if not torch.cuda.is_available() or device == "cpu":
        return None
    gpu = torch.device("cuda" if device == "auto" else device)
    with torch.cuda.device(gpu), torch.inference_mode():
        chain = _Chain(products, gpu)
        measured = {
            "gpu": torch.cuda.get_device_name(gpu),
            "copy_gb_per_s": copy_gb_per_s(gpu),
            "weight_bytes_read": sum(2 * each.num_outputs * each.num_inputs for each in products),
            "num_products": len(products),
            "products_ms": {str(rows): chain.ms(rows) for rows in batches},
        }
    del chain
    torch.cuda.empty_cache()
    return measured


def copy_gb_per_s(gpu: "torch.device") -> float:
    """Return how much of its own memory the device reads and writes in a second, both counted."""
    import torch

    source = torch.zeros(_COPY_BYTES, dtype=torch.uint8, device=gpu)
    target = torch.empty_like(source)
    copy_ms = _median_ms(lambda: target.copy_(source))
    return 2 * _COPY_BYTES / copy_ms / 1e6


class _Chain:
    """A frame's products one after the other, on random numbers; equal names share weights."""

    def __init__(self, products: Sequence[Product], gpu: "torch.device") -> None:
        import torch

        self._products = products
        self._gpu = gpu
        self._weights: dict[str, torch.Tensor] = {}
        for each in products:
            if each.weight not in self._weights:
                shape = (each.num_outputs, each.num_inputs)
                numbers = torch.randn(shape, device=gpu, dtype=torch.bfloat16)
                self._weights[each.weight] = numbers * each.num_inputs**-0.5

    def ms(self, num_rows: int) -> float:
        """Return the time of the whole chain for so many rows, in one CUDA graph."""
        import torch

        inputs = {
            (each.num_inputs, each.num_positions): torch.randn(
                (num_rows * each.num_positions, each.num_inputs),
                device=self._gpu,
                dtype=torch.bfloat16,
            )
            for each in self._products
        }

        def run() -> None:
            for each in self._products:
                rows = inputs[each.num_inputs, each.num_positions]
                torch.mm(rows, self._weights[each.weight].T)

        return _graph_ms(run)


def _graph_ms(run: Callable[[], object]) -> float:
    """Return the time of work that is captured in a graph."""
    import torch

    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        run()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        run()
    return _median_ms(graph.replay)


def _median_ms(run: Callable[[], object]) -> float:
    """Return the device's median time over some runs, each measured by itself."""
    import torch

    run()
    times_ms: list[float] = []
    for _ in range(_NUM_RUNS):
        began = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        ended = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        began.record()
        run()
        ended.record()
        ended.synchronize()
        times_ms.append(began.elapsed_time(ended))
    return sorted(times_ms)[_NUM_RUNS // 2]
