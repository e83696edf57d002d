"""Statistics of image and video requests, and their metrics."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from prometheus_client import CollectorRegistry

from antiphon.contracts.picture_types import Image, Progress, Video
from antiphon.telemetry.metric_maker import OMNI_LABELS, MetricMaker
from antiphon.telemetry.stream_stats import RequestStats, outcome_of

_BUCKETS_S = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800)
_PIXEL_BUCKETS = tuple(float(4**power) for power in range(4, 13))
_STEP_BUCKETS = (1, 2, 4, 8, 12, 16, 20, 28, 30, 40, 50, 75, 100)


class PictureStats(RequestStats):
    """Times a request.

    Attributes:
        first_picture_s: Time from the beginning to the first picture or preview; ``None``
            before that.
        num_pictures: images, or frames of a video, of the result.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first_picture_s: float | None = None
        self.num_pictures = 0
        self.num_pixels = 0
        self.num_steps = 0

    def see(self, item: Progress | Image | Video) -> None:
        """Note what has come."""
        if isinstance(item, Progress):
            self.num_steps = max(self.num_steps, item.step)
            return
        if self.first_picture_s is None:
            self.first_picture_s = self.elapsed_s
        if isinstance(item, Video):
            num_frames, height, width, _ = item.frames.shape
            self.num_pictures, self.num_pixels = num_frames, height * width
        elif item.preview_index is None:
            height, width, _ = item.pixels.shape
            self.num_pictures, self.num_pixels = self.num_pictures + 1, height * width


class PictureMetrics:
    """The metrics of images and videos, under our names and, for images, vLLM-Omni's."""

    def __init__(self, registry: CollectorRegistry) -> None:
        ours = MetricMaker(registry, "antiphon_", "task", "model")
        self._active = ours.gauge("pictures_active", "Images and videos that are being made.")
        text = "Requests for an image or a video that ended, by reason."
        self._ended = ours.counter("pictures_ended", text, "reason")
        text = "From the request to the end of an image or a video, before encoding."
        self._seconds = ours.histogram("picture_seconds", text, _BUCKETS_S)
        text = "From the request to its first picture, possibly a preview."
        self._first_s = ours.histogram("first_picture_seconds", text, _BUCKETS_S)
        text = "Steps of denoising of completed requests."
        self._steps = ours.counter("denoising_steps", text)
        omni = MetricMaker(registry, "vllm_omni:", *OMNI_LABELS)
        self._omni_count = omni.counter("image_count", "Images made.")
        self._omni_pixels = omni.histogram("image_pixels", "Pixels of an image.", _PIXEL_BUCKETS)
        self._omni_ttfp_s = omni.histogram("image_ttfp_s", "Time to the first image.", _BUCKETS_S)
        text = "Steps of a request."
        self._omni_steps = omni.histogram("num_inference_steps", text, _STEP_BUCKETS)

    @contextmanager
    def observe(self, task: str, model: str) -> Generator[PictureStats, None, None]:
        """Measure a request; the block reports its items and its end."""
        self._active.labels(task, model).inc()
        with outcome_of(PictureStats(), partial(self._record, task, model)) as stats:
            yield stats

    def _record(self, task: str, model: str, stats: PictureStats, reason: str) -> None:
        self._active.labels(task, model).dec()
        self._ended.labels(task, model, reason).inc()
        if reason not in ("stop", "length"):
            return
        self._seconds.labels(task, model).observe(stats.elapsed_s)
        self._steps.labels(task, model).inc(stats.num_steps)
        if stats.first_picture_s is not None:
            self._first_s.labels(task, model).observe(stats.first_picture_s)
        if task == "image" and stats.num_pictures:
            place = (model, task, "0")
            self._omni_count.labels(*place).inc(stats.num_pictures)
            self._omni_pixels.labels(*place).observe(stats.num_pixels)
            self._omni_ttfp_s.labels(*place).observe(stats.first_picture_s or 0.0)
            self._omni_steps.labels(*place).observe(stats.num_steps)
