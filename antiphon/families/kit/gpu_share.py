"""Division of a GPU's memory among streams, computed before a checkpoint is loaded."""

from dataclasses import dataclass

from antiphon.contracts.inspection import Footprint
from antiphon.engine.kv_memory import BLOCK_POSITIONS, num_blocks_of, num_bytes_left


@dataclass(frozen=True, slots=True)
class GpuShare:
    """Memory available to streams.

    Attributes:
        num_bytes: bytes for all streams; negative if not even the weights fit.
        stream_bytes: bytes per stream: keys and values, and the codec's reserve.
    """

    num_bytes: int
    stream_bytes: int

    @property
    def num_streams(self) -> int:
        return max(0, self.num_bytes // self.stream_bytes)


def gpu_share(
    footprint: Footprint,
    num_positions: int,
    *,
    num_total: int,
    num_context: int,
    utilization: float,
) -> GpuShare:
    """Return the memory of streams on an otherwise idle GPU, with a slot for each.

    Args:
        footprint: footprint of the checkpoint.
        num_positions: positions of each stream, prompt and frames together.
        num_total: bytes of the GPU.
        num_context: bytes that CUDA allocates before loading.
        utilization: share of the memory that the server may use.
    """
    num_free = num_total - footprint.weight_bytes - num_context

    def left(num_slots: int) -> int:
        return num_bytes_left(num_free, num_total, utilization=utilization, num_slots=num_slots)

    kept_bytes = num_blocks_of(num_positions) * BLOCK_POSITIONS * footprint.position_bytes
    return GpuShare(left(0), kept_bytes + left(0) - left(1))
