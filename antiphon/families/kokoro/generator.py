"""Phonemes to audio: one run of the network a sentence, whose silence is trimmed."""

import os
from collections.abc import Generator
from importlib.util import find_spec
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.wav import clipped
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Samples, WordTime
from antiphon.errors import EngineError, ModelLoadError, how_to_install
from antiphon.families.kokoro.checkpoint import (
    FRAME_SAMPLES,
    SAMPLE_RATE_HZ,
    KokoroCheckpoint,
    read_checkpoint,
)
from antiphon.families.kokoro.voices import VoiceStyles, in_order
from antiphon.text.phoneme_prompt import PhonemePrompt, SentencePauses
from antiphon.text.word_times import word_times

_CHUNK_FRAMES = 40  # 1 s
_FRAME_S = FRAME_SAMPLES / SAMPLE_RATE_HZ
_SILENCE_FRAMES = 4  # 100 ms for a text with nothing to pronounce: no stream is empty
_MAX_THREADS = 4
_WARM_UP_IDS = tuple(range(43, 83))  # Any will do: about as many as a short sentence has.
PAUSES = SentencePauses(frame_ms=25)
_AUDIBLE = 1e-3  # -60 dBFS


class KokoroNetwork(Protocol):
    """Speaks sentences; called by any number of threads at the same time."""

    def speak(
        self, ids: tuple[int, ...], style: NDArray[np.float32], seed: tuple[int, int]
    ) -> tuple[Samples, NDArray[np.float32] | None]:
        """Return a sentence's samples, and its phonemes' durations in frames if they are known.

        Args:
            style: style vector, see `VoiceStyles.style`.
            seed: seed of the request and number of the sentence, from which noise is drawn.
        """


class KokoroGenerator:
    """Speaks in all voices of a checkpoint, and in mixes of them."""

    def __init__(self, context: LoadContext) -> None:
        """Load and warm up the network; raises ModelLoadError."""
        checkpoint = read_checkpoint(context.checkpoint, is_dummy=context.is_dummy)
        self._styles = VoiceStyles(checkpoint)
        self._network: KokoroNetwork | None = _load(checkpoint, context)
        voice = in_order(checkpoint.voices)[0]
        warm_up = PhonemePrompt(voice, (_WARM_UP_IDS,))
        for _ in self.generate(Prompt(data=warm_up, num_tokens=0, seed=0)):
            pass

    def generate(self, prompt: Prompt) -> Generator[AudioChunk, None, None]:
        """Yield each sentence when it is ready, in chunks of up to 1 s; raises EngineError."""
        spoken = prompt.data
        assert isinstance(spoken, PhonemePrompt)
        if not spoken.sentences:
            silence = np.zeros(_SILENCE_FRAMES * FRAME_SAMPLES, np.float32)
            yield AudioChunk(silence, SAMPLE_RATE_HZ, _SILENCE_FRAMES)
        start_s = 0.0
        for index, ids in enumerate(spoken.sentences):
            style = self._styles.style(spoken.voice, len(ids))
            seed = prompt.seed % 2**64, index
            made, durations = self._loaded().speak(ids, style, seed)
            made = clipped(made)
            num_after = spoken.frames_after(index, PAUSES)
            if num_after > PAUSES.pause_frames:  # more silence than the network makes
                made = np.pad(made, (0, num_after * FRAME_SAMPLES))
            first, stop = span = natural_span(made, num_after)
            words: tuple[WordTime, ...] = ()
            if spoken.words and durations is not None:
                num_frames = -(-len(made) // FRAME_SAMPLES)
                times = word_times(spoken.words[index], durations, span, num_frames, _FRAME_S)
                words = tuple(each.later(start_s) for each in times)
            for start in range(first, stop, _CHUNK_FRAMES):
                end = min(start + _CHUNK_FRAMES, stop)
                samples = made[start * FRAME_SAMPLES : end * FRAME_SAMPLES]
                yield AudioChunk(samples, SAMPLE_RATE_HZ, end - start, words)
                start_s += len(samples) / SAMPLE_RATE_HZ
                words = ()

    def close(self) -> None:
        self._network = None

    def _loaded(self) -> KokoroNetwork:
        if self._network is None:
            raise EngineError("The model is not loaded any more.")
        return self._network


def _load(checkpoint: KokoroCheckpoint, context: LoadContext) -> KokoroNetwork:
    """Return the network for the wanted device: on the CPU the export, if there is one."""
    wants_gpu = context.device.startswith("cuda") or (
        context.device == "auto" and checkpoint.weights is not None and _has_gpu()
    )
    if checkpoint.network is not None and not wants_gpu and not context.is_dummy:
        from antiphon.families.kokoro.onnx_network import OnnxNetwork

        # The client waits for all of a sentence.
        return OnnxNetwork(checkpoint.network, min(os.cpu_count() or 1, _MAX_THREADS))
    if checkpoint.weights is None and not context.is_dummy:
        raise ModelLoadError(
            f"{checkpoint.path}: the ONNX export runs on the CPU; on '{context.device}' run the"
            " original weights (*.pth), or say --device cpu."
        )
    if find_spec("torch") is None:
        raise ModelLoadError(f"{checkpoint.path}: needs PyTorch: {how_to_install('torch')}")
    from antiphon.families.kokoro.torch_network import load_torch_network

    return load_torch_network(checkpoint, context)


def _has_gpu() -> bool:
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def natural_span(samples: Samples, num_after: int = PAUSES.pause_frames) -> tuple[int, int]:
    """Return the first frame and the end of a sentence's audible span, with silence around it.

    Silence that the samples do not have is not made up: a span never leaves them. ``num_after``
    frames of it follow.
    """
    num_frames = -(-len(samples) // FRAME_SAMPLES)
    padded = np.pad(samples, (0, num_frames * FRAME_SAMPLES - len(samples)))
    power = np.mean(np.square(padded.reshape(num_frames, FRAME_SAMPLES)), axis=1)
    (audible,) = np.nonzero(np.sqrt(power) > _AUDIBLE)
    if len(audible) == 0:
        return 0, num_frames
    first, last = int(audible[0]), int(audible[-1])
    return max(0, first - PAUSES.lead_frames), min(num_frames, last + 1 + num_after)
