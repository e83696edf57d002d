"""How long a device and its host take for what a simulated engine gives them to do."""

from dataclasses import dataclass
from math import ceil

import numpy as np

from antiphon.engine.chunk_planner import round_up
from antiphon.engine.cost_model import StepShape
from antiphon.engine.runner import FRAME_BUCKETS

ROW_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """How long the parts of a step take; between the points it is a straight line.

    Attributes:
        rows_s: seconds of a frame for so many slots.
        prefill_s: of ``prefill_positions``.
        prefill_positions: that are computed at a time.
        pass_s: of a pass over the layers, besides its positions, if it is one of prompts alone.
        num_free_positions: of prompts that are in one pass with the rows, which take no longer than
            `prompts_s`; ``None``: prompts have passes of their own.
        prompts_s: that prompts in such a pass take however few they are.
        position_s: that a frame takes longer for each position before it, which it attends to.
        chunk_s: of a pass of the codec over one frame.
        chunk_frame_s: of each frame that is decoded beside it.
        host_s: that scheduling and launching take.
        chunk_sizes: frames that a chunk may have.
    """

    rows_s: tuple[tuple[int, float], ...] = ((1, 2.5e-3), (64, 4e-3), (256, 9e-3), (1024, 29e-3))
    prefill_s: float = 3e-3
    prefill_positions: int = 64
    pass_s: float = 0.0
    num_free_positions: int | None = None
    prompts_s: float = 0.0
    position_s: float = 0.0
    chunk_s: float = 0.7e-3
    chunk_frame_s: float = 1.8e-3 / 127
    host_s: float = 0.6e-3
    chunk_sizes: tuple[int, ...] = tuple(range(1, 17))

    def step_s(self, shape: StepShape, num_attended: int = 0) -> float:
        """Return how long a step takes, after ``num_attended`` positions of all its rows."""
        seconds = self._prefill_s(shape.num_rows, shape.num_positions)
        seconds += num_attended * self.position_s
        if shape.num_rows:
            sizes, times_s = zip(*self.rows_s, strict=True)
            num_rows = next(size for size in ROW_BUCKETS if size >= shape.num_rows)
            seconds += float(np.interp(num_rows, sizes, times_s))
        num_full, num_frames = divmod(shape.num_codec_frames, FRAME_BUCKETS[-1])
        for size in (*[FRAME_BUCKETS[-1]] * num_full, num_frames):
            if size:
                size = round_up(size, FRAME_BUCKETS)
                seconds += self.chunk_s + (size - 1) * self.chunk_frame_s
        return seconds

    def _prefill_s(self, num_rows: int, num_positions: int) -> float:
        if not num_positions:
            return 0.0
        besides_s = self.pass_s
        if num_rows and self.num_free_positions is not None:
            besides_s = self.prompts_s
            num_positions = max(0, num_positions - self.num_free_positions)
        return besides_s + ceil(num_positions / self.prefill_positions) * self.prefill_s


@dataclass(frozen=True, slots=True)
class HostModel:
    """How long the process takes in which the engine is, besides its steps.

    Attributes:
        request_s: for each request, before the engine has it.
        chunk_s: for each chunk, once the engine has it.
        latency_s: that each chunk is on its way in addition, while others are served.
    """

    request_s: float = 0.0
    chunk_s: float = 0.0
    latency_s: float = 0.0
