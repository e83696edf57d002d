"""Streaming decoder from the talker's codes to audio, in blocks.

A spectrogram block is computed together with the block after it, from the codes of both and from
the state of the block before. Then the second block is computed again together with a third. The
only difference from a computation of the whole is that the second block does not attend to a third.
The vocoder reads as much of the past as its receptive field covers, and the second block of the
window as the future.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from numpy.typing import NDArray
from torch import Tensor

from antiphon.codec.pending import PendingDownloads
from antiphon.contracts.family import LoadContext
from antiphon.engine.plan import CodecChunk
from antiphon.families.causal_lm.omni.checkpoint import token2wav_part
from antiphon.families.causal_lm.omni.config import SAMPLE_RATE_HZ, load_omni_config
from antiphon.families.causal_lm.omni.flow import FlowModel, FlowWindow
from antiphon.families.causal_lm.omni.flow_passes import FlowPasses
from antiphon.families.causal_lm.omni.vocoder import OmniVocoder, reach_frames
from antiphon.families.causal_lm.omni.voices import load_voices
from antiphon.families.kit.loading import weights_for
from antiphon.nn.device_writes import Download, upload
from antiphon.nn.precision import exact_float32
from antiphon.nn.weights import Progress, WeightOptions, open_weights

_SEED_BITS = 64


@dataclass(slots=True, eq=False)
class OmniStream:
    """State of a stream.

    Attributes:
        past: latest mel frames, as many as the vocoder's receptive field covers,
            ``[num_frames, mel_dim]``.
        before: keys and values of the previous block.
    """

    voice: str
    seed: int
    block: int
    past: Tensor
    before: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class OmniStreams:
    """The streams of one batch.

    Attributes:
        rows: stream of each slot; ``None`` in unused slots.
    """

    passes: FlowPasses
    rows: list[OmniStream | None]

    def row(self, slot: int) -> OmniStream:
        """Return the stream of a slot; it must have been reset."""
        stream = self.rows[slot]
        assert stream is not None, "a row is reset before it is used"
        return stream


class Token2Wav:
    """An `antiphon.codec.protocol.StreamingDecoder`; a frame is a code, ``[1]``.

    On a CPU rows are computed one by one, so that other streams do not affect a stream even by
    rounding.
    """

    sample_rate_hz = SAMPLE_RATE_HZ

    def __init__(
        self, flow: FlowModel, vocoder: OmniVocoder, progress: Progress | None = None
    ) -> None:
        """Combine both networks; ``progress`` is called for every captured graph."""
        self._progress, self._flow, self._vocoder = progress, flow, vocoder
        config = flow.config
        self._block_size, self._repeats = config.block_size, config.repeats
        self.samples_per_frame = config.repeats * vocoder.config.hop
        self.group_frames = self.look_ahead_frames = config.block_codes
        self.chunk_sizes = (self.group_frames,)
        self._num_past = reach_frames(vocoder.config)

    @torch.inference_mode()
    def open(self, num_slots: int) -> OmniStreams:
        return OmniStreams(FlowPasses(self._flow, num_slots, self._progress), [None] * num_slots)

    def on_stream(self, state: OmniStreams) -> AbstractContextManager[object]:
        device = self._flow.device
        return torch.cuda.device(device) if device.type == "cuda" else nullcontext()

    @torch.inference_mode()
    def reset(self, state: OmniStreams, slot: int, conditioning: Mapping[str, Any]) -> None:
        """Reset a slot with ``conditioning``: its ``voice``, and the ``seed`` of the noise."""
        past = torch.zeros(0, self._flow.config.mel_dim, device=self._flow.device)
        voice, seed = conditioning["voice"], conditioning["seed"]
        state.rows[slot] = OmniStream(voice, seed, 0, past, self._flow.memory())

    def prime(self, state: OmniStreams, slot: int, frames: NDArray[Any]) -> None:
        raise AssertionError("its prompts have no context")

    @torch.inference_mode()
    def replay(
        self, state: OmniStreams, slot: int, frames: NDArray[Any], num_ahead: int = 0
    ) -> None:
        codes, size = upload(np.asarray(frames)[:, 0], self._flow.device), self.group_frames
        for first in range(0, len(codes) - num_ahead, size):
            self._decode(state, [(state.row(slot), codes[first : first + 2 * size])])

    @torch.inference_mode()
    def launch(
        self, chunks: Sequence[CodecChunk], frame_store: Any, state: OmniStreams
    ) -> PendingDownloads:
        device = self._flow.device
        store = torch.as_tensor(frame_store)
        rows = []
        for each in chunks:
            end = each.start + self.group_frames + self.look_ahead_frames
            end = end if each.end is None else min(end, each.end)
            places = np.arange(each.start, end) % store.shape[1]
            kept = store[each.slot, upload(places, store.device), 0]
            rows.append((state.row(each.slot), kept.to(device, non_blocking=True)))
        size, audio = state.passes.max_rows, list[Tensor]()
        for first in range(0, len(rows), size):
            audio += self._decode(state, rows[first : first + size])
        whole = ({each.slot: slice(None)} for each in chunks)
        return PendingDownloads([*zip(whole, map(Download, audio), strict=True)])

    def close(self) -> None:
        """Do nothing: all memory is freed with the object."""

    def _decode(
        self, state: OmniStreams, rows: Sequence[tuple[OmniStream, Tensor]]
    ) -> list[Tensor]:
        """Decode the next block of each stream, and advance the streams.

        Args:
            rows: streams, with the available codes of the block and of the one after it.

        Returns:
            Samples of each block, always those of a whole one.
        """
        size, window = self._block_size, self._window(rows)
        mels = state.passes.solve(window)
        assert window.before is not None
        audio = []
        for (stream, codes), mel, kept in zip(rows, mels, window.before, strict=True):
            stream.before.copy_(kept)
            stream.block += 1
            num_past, num_frames = len(stream.past), len(codes) * self._repeats
            frames = torch.cat((stream.past, mel[:num_frames]))
            stream.past = frames[: num_past + size][-self._num_past :].clone()
            with exact_float32():
                samples = self._vocoder(frames[None])[0].view(len(frames), -1)
            block = samples[num_past : num_past + size].flatten()
            missing = size * samples.shape[1] - len(block)
            audio.append(F.pad(block, (0, missing)))
        return audio

    def _window(self, rows: Sequence[tuple[OmniStream, Tensor]]) -> FlowWindow:
        size, device = self._block_size, self._flow.device
        streams = [stream for stream, _ in rows]
        codes = torch.zeros(len(rows), 2 * self.group_frames, dtype=torch.int64, device=device)
        for row, (_, known) in zip(codes, rows, strict=True):
            row[: len(known)] = known
        blocks = ((self.noise(each, each.block + k) for k in range(2)) for each in streams)
        noise = np.stack([np.concatenate([*pair]) for pair in blocks])
        return FlowWindow(
            noise=upload(noise, device),
            codes=codes,
            starts=upload([each.block * size for each in streams], device),
            lengths=upload([len(known) * self._repeats for _, known in rows], device),
            voices=upload([self._flow.voice(each.voice) for each in streams], device),
            before=torch.stack([each.before for each in streams]),
        )

    def noise(self, stream: OmniStream, block: int) -> NDArray[np.float32]:
        """Return the noise of a block, which depends only on the seed and the block's number."""
        seed = stream.seed % (1 << _SEED_BITS)
        bits = np.random.Philox(key=seed, counter=block << _SEED_BITS)
        shape = (self._block_size, self._flow.config.mel_dim)
        return np.random.Generator(bits).standard_normal(shape, np.float32)


def load_token2wav(context: LoadContext) -> Token2Wav:
    """Load the decoder from codes to 24 kHz audio, in float32; raises ModelLoadError."""
    how = weights_for(context, "token2wav", "float32")
    networks = load_networks(context.checkpoint, **how)
    return Token2Wav(*networks, context.progress_of("graphs of token2wav"))


def load_networks(path: Path, **how: Unpack[WeightOptions]) -> tuple[FlowModel, OmniVocoder]:
    """Load both networks of a checkpoint's directory; raises ModelLoadError."""
    config = load_omni_config(path)
    with torch.inference_mode(), open_weights(token2wav_part(path, config), **how) as weights:
        voices = load_voices(path, config)
        return FlowModel(config.flow, weights, voices), OmniVocoder(config.vocoder, weights)
