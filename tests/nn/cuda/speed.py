"""How long inner codes take in one launch, and by kernels: ``python -m tests.nn.cuda.speed``.

Prints a table of milliseconds a frame, of graphs that are replayed, on an H100 SXM or H200.
"""

import sys
from collections.abc import Callable
from functools import partial

import torch

from antiphon.nn.cuda.compiler import runs_on
from antiphon.nn.cuda.resident_limits import NUM_BLOCKS
from tests.nn.cuda.predictors import WIDTH, noise_of, predictor_of, rows_of

ROWS = (1, 2, 4, 8)
_NUM_GROUPS = 15
_NUM_REPLAYS = 100


def replayed_ms(function: Callable[[], None]) -> float:
    """Return how long a call takes when it is replayed as a graph."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        function()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        function()
        graph.capture_end()
        graph.replay()
        begun.record()
        for _ in range(_NUM_REPLAYS):
            graph.replay()
        ended.record()
        ended.synchronize()
    milliseconds: float = begun.elapsed_time(ended)
    return milliseconds / _NUM_REPLAYS


@torch.inference_mode()
def main() -> None:
    """Print the table."""
    device = torch.device("cuda")
    if not (torch.cuda.is_available() and runs_on(device, NUM_BLOCKS)):
        sys.exit("It needs an H100 SXM or H200, and NVIDIA's run-time compiler.")
    by_kernels = predictor_of(device, num_groups=_NUM_GROUPS)
    in_one = by_kernels.with_resident()
    lines = [
        torch.cuda.get_device_name(),
        "| rows | by kernels | in one launch |",
        "| --- | --- | --- |",
    ]
    for num_rows in ROWS:
        codes = torch.zeros(num_rows, _NUM_GROUPS + 2, dtype=torch.int64, device=device)
        scores = torch.zeros(num_rows, _NUM_GROUPS + 1, device=device)
        states = torch.randn(num_rows, WIDTH, device=device).bfloat16()
        rows = rows_of([0.9] * num_rows, [50] * num_rows, [1.0] * num_rows, device)
        noise, cache = noise_of(num_rows, _NUM_GROUPS, device), by_kernels.new_cache(num_rows)
        times_ms = []
        for predictor in (by_kernels, in_one):
            arguments = (states, (codes, scores), rows, noise, cache)
            times_ms.append(replayed_ms(partial(predictor.complete, *arguments)))
        lines.append(f"| {num_rows} | {times_ms[0]:.2f} | {times_ms[1]:.2f} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
