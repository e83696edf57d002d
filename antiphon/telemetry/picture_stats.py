"""Statistics of image and video requests, and their metrics."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from antiphon.contracts.picture_types import Image, Progress, Video
from antiphon.telemetry.stream_stats import RequestStats, outcome_of

_BUCKETS_S = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800)
_PIXEL_BUCKETS = tuple(float(4**power) for power in range(4, 13))
_STEP_BUCKETS = (1, 2, 4, 8, 12, 16, 20, 28, 30, 40, 50, 75, 100)
_OMNI_LABELS = ("model_name", "stage", "replica")


class PictureStats(RequestStats):
    """Times a request.

    Attributes:
        first_picture_s: Time from the beginning to the first picture or preview; ``None``
            before that.
        num_pictures: images, or frames of a video, of the result.
        num_pixels: Pixels of each picture.
        num_steps: Denoising steps so far.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
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
        labels = ("task", "model")
        self._active = Gauge(
            "antiphon_pictures_active",
            "Images and videos that are being made.",
            labels,
            registry=registry,
            multiprocess_mode="livesum",
        )
        text = "Requests for an image or a video that ended, by reason."
        self._ended = Counter(
            "antiphon_pictures_ended", text, (*labels, "reason"), registry=registry
        )

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(
                f"antiphon_{name}", text, labels, registry=registry, buckets=_BUCKETS_S
            )

        text = "From the request to the end of an image or a video, before encoding."
        self._seconds = histogram("picture_seconds", text)
        text = "From the request to its first picture, possibly a preview."
        self._first_s = histogram("first_picture_seconds", text)
        text = "Steps of denoising of completed requests."
        self._steps = Counter("antiphon_denoising_steps", text, labels, registry=registry)

        def omni(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            name = f"vllm_omni:{name}"
            return Histogram(name, text, _OMNI_LABELS, registry=registry, buckets=buckets)

        self._omni_count = Counter(
            "vllm_omni:image_count", "Images made.", _OMNI_LABELS, registry=registry
        )
        self._omni_pixels = omni("image_pixels", "Pixels of an image.", _PIXEL_BUCKETS)
        self._omni_ttfp_s = omni("image_ttfp_s", "Time to the first image.", _BUCKETS_S)
        self._omni_steps = omni("num_inference_steps", "Steps of a request.", _STEP_BUCKETS)

    @contextmanager
    def observe(self, task: str, model: str) -> Generator[PictureStats, None, None]:
        """Measure a request; the block reports its items and its end.

        Args:
            task: "image" or "video".
            model: its served name.
        """
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
