"""Encoder stage of families that clone voices."""

from collections.abc import Sequence

from antiphon.audio.resample import resampled
from antiphon.contracts.prompt import EncodingBatch
from antiphon.contracts.types import Latents
from antiphon.families.kit.cloned_voices import Recording, RecordingLimits, warm_up_samples
from antiphon.nn.padded_batches import PaddedBatches
from antiphon.nn.parallel_rows import ParallelRows


class ClonedVoiceEncoder:
    """`BatchEncoder` of reference audio; used by one thread at a time.

    Networks compute in float32 for any type of the language model: rounding would change codes. On
    a GPU, recordings are encoded in padded batches.
    """

    def __init__(
        self,
        batches: PaddedBatches | ParallelRows,
        limits: RecordingLimits,
        parts: Sequence[str],
        rate_hz: int | None = None,
    ) -> None:
        """Warm the networks.

        Args:
            parts: names of the passes.
            rate_hz: sample rate of the networks; ``None``: that of recordings.
        """
        self._batches = batches
        self._limits = limits
        self._rate_hz = rate_hz or limits.rate_hz
        self.encode(Recording(warm_up_samples(limits.rate_hz), tuple(parts)))

    def batch_of(self, data: Recording) -> EncodingBatch:
        """Return the batch for a recording: same outputs, similar length; may refuse its length."""
        self._limits.check(data)
        fitting = self._fitting(data)
        return EncodingBatch((data.wanted, fitting.key), fitting.max_size)

    def encode_batch(self, batch: Sequence[Recording]) -> list[Latents]:
        """Return the wanted outputs of each recording, by name."""
        source_hz = self._limits.rate_hz
        recordings = [resampled(each.samples, source_hz, self._rate_hz) for each in batch]
        key = self._fitting(batch[0]).key
        return list(map(Latents, self._batches.encode(batch[0].wanted, recordings, key)))

    def encode(self, recording: Recording) -> Latents:
        """Encode one recording; see `encode_batch`; raises InvalidRequestError."""
        self.batch_of(recording)
        return self.encode_batch([recording])[0]

    def _fitting(self, recording: Recording) -> EncodingBatch:
        # Resampling rounds the length; rounded up, it is the same within a batch.
        return self._batches.batch_of(
            -(-len(recording.samples) * self._rate_hz // self._limits.rate_hz)
        )

    def close(self) -> None:
        """Do nothing: all memory is freed with the object."""
