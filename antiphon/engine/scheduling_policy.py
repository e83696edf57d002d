"""The playback clock: whoever is nearest to silence goes first."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf

from antiphon.engine.cost_model import CostModel
from antiphon.engine.plan import CodecShape
from antiphon.engine.request import EngineRequest


@dataclass(frozen=True, slots=True)
class PlaybackPolicy:
    """What the buffers of the listeners decide: chunk sizes, and who makes a frame in a step.

    A listener's deadline is when it will have heard all that it was given, its slack is the time
    until then. A request that nobody listens to, or of a runner that does not decode, has no
    deadline.

    **Chunks.** The first is as small as it can be without silence after it. Each following one may
    be up to ``spacing`` times as large, if making it takes no more than ``1 / growth`` of the slack
    and leaves ``margin_s``. Sizes between are not used: chunks of one size are decoded together,
    and a group more costs more than a few frames more. A step decodes no more chunks than are due
    on average, those nearest to silence first, so that streams that began together do not decode
    together ever after. Whoever has less slack than ``comfort_s`` does not take part in this, and
    whoever is in danger gets what there is, if that is less than a chunk.

    **Rows.** A step makes a frame for every slot. If a stream is in danger, bulk work is left out
    to make the step quicker; if no stream is, and a listener waits for its first sound, those with
    more slack than ``comfort_s`` are left out too. ``waiting_share`` of the step's rows is theirs
    all the same, and what is left in the bucket that rows are rounded up to; whoever was left out
    longest goes first. Nobody is left out if that saves less than ``min_saving_s``. Whoever is left
    out keeps its slot for longer: so nobody is for a first sound, if fewer than ``free_share`` of
    the slots are free, or if a step takes more than ``short_step`` of a frame's duration.

    Attributes:
        start: duration of a first chunk, in steps of the longer kind.
        growth: how much faster than needed a larger chunk must be made.
        margin_s: slack below which a stream is in danger.
        comfort_s: slack above which a stream can wait.
        waiting_share: of a step's rows, for those who can wait.
        min_saving_s: of a step, that is worth leaving rows out; ``inf``: never.
        free_share: of the slots, that must be free for rows to be left out.
        short_step: duration of a step, in frames, for rows to be left out.
        spacing: of the sizes of chunks.
        spread: chunks that a step decodes, in proportion to the average.
    """

    start: float = 1.75
    growth: float = 2.0
    margin_s: float = 0.06
    comfort_s: float = 0.5
    waiting_share: float = 0.125
    min_saving_s: float = 1e-3
    free_share: float = 0.6
    short_step: float = 0.25
    spacing: int = 4
    spread: float = 1.1

    def chunk_sizes(self, codec: CodecShape) -> tuple[int, ...]:
        """Return the sizes to be used, of those that there are."""
        sizes = [codec.chunk_sizes[0]]
        for size in codec.chunk_sizes:
            if size >= sizes[-1] * self.spacing:
                sizes.append(size)
        return tuple(sizes)

    def first_chunk_frames(self, codec: CodecShape, num_frames: int, times: CostModel) -> int:
        """Return the size of a first chunk: it must last until the second one, one step later.

        Args:
            codec: says which sizes there are.
            num_frames: that are asked for.
            times: of steps.
        """
        num_needed = self.start * times.long_step_s / codec.frame_s
        return round_up(max(num_frames, num_needed), codec.chunk_sizes)

    def next_chunk_frames(
        self, sizes: Sequence[int], last: int, slack_s: float, step_s: float
    ) -> int:
        """Return the size of the chunk that follows one of ``last`` frames.

        Args:
            sizes: that are used, ascending.
            last: frames of the chunk before.
            slack_s: that the listener has with it.
            step_s: time in which a frame is made.
        """
        longest = min((slack_s - self.margin_s) / (step_s * self.growth), last * self.spacing)
        return max(sizes[0], round_down(longest, sizes))

    def chunks_to_decode(
        self, due: Sequence[EngineRequest], num_on_average: float, times: CostModel, now_s: float
    ) -> Sequence[EngineRequest]:
        """Return whose chunks this step decodes, of those that are complete."""
        limit = times.row_bucket(max(1, ceil(num_on_average * self.spread)))
        if len(due) <= limit:
            return due
        comfortable_s = now_s + self.comfort_s
        return [
            each
            for place, each in enumerate(sorted(due, key=_deadline_s))
            if place < limit or each.is_first_sound_due or each.deadline_s < comfortable_s
        ]

    def hurry_s(self, times: CostModel, now_s: float) -> float:
        """Return the deadline before which a stream is in danger."""
        return now_s + self.margin_s + times.long_step_s

    def may_leave_out(self, codec: CodecShape, times: CostModel, free_share: float) -> bool:
        """Whether rows may be left out for somebody's first sound.

        Args:
            codec: says how long a frame sounds.
            times: of steps.
            free_share: of all slots.
        """
        is_short = times.long_step_s <= self.short_step * codec.frame_s
        return is_short and free_share >= self.free_share

    def rows_to_run(
        self,
        ready: Sequence[EngineRequest],
        times: CostModel,
        now_s: float,
        *,
        is_first_sound_due: bool,
    ) -> Sequence[EngineRequest]:
        """Return who makes a frame in this step, of those that could.

        Args:
            ready: in any order.
            times: of steps.
            now_s: the time.
            is_first_sound_due: whether rows may be left out for one, if only in prefill.
        """
        if times.rows_s(len(ready)) - times.rows_s(1) < self.min_saving_s:
            return ready
        hurry_s, patient_s = self.hurry_s(times, now_s), now_s + self.comfort_s
        if any(each.deadline_s < hurry_s for each in ready):
            patient_s = inf
        elif not is_first_sound_due:
            return ready
        needed: list[EngineRequest] = []
        spare: list[EngineRequest] = []
        for each in ready:
            can_wait = not each.is_live or (
                each.deadline_s > patient_s and each.num_frames_decoded > 0
            )
            (spare if can_wait else needed).append(each)
        num_waiting = max(1, int(len(needed) * self.waiting_share))
        num_rows = times.row_bucket(len(needed) + num_waiting)
        if times.rows_s(len(ready)) - times.rows_s(num_rows) < self.min_saving_s:
            return ready
        spare.sort(key=lambda each: -each.num_steps_left_out)
        return needed + spare[: num_rows - len(needed)]


ALL_ROWS = PlaybackPolicy(min_saving_s=inf)
"""Every slot in every step."""


def heard_until_s(deadline_s: float, now_s: float, duration_s: float) -> float:
    """Return when a listener will have heard all, with audio that is there now.

    Args:
        deadline_s: when it would have heard all before; ``inf``: there was none.
        now_s: the time.
        duration_s: of the audio.
    """
    return (now_s if deadline_s == inf else max(deadline_s, now_s)) + duration_s


def round_up(num_frames: float, sizes: Sequence[int]) -> int:
    """Return the smallest of ascending ``sizes`` that holds as many frames, or the largest."""
    return next((size for size in sizes if size >= num_frames), sizes[-1])


def round_down(num_frames: float, sizes: Sequence[int]) -> int:
    """Return the largest of ascending ``sizes`` that is not larger, or 0."""
    return max((size for size in sizes if size <= num_frames), default=0)


def _deadline_s(request: EngineRequest) -> float:
    return request.deadline_s
