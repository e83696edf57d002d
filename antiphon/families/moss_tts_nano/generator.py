"""Generator of chunks from the events of the model's own streaming method."""

import threading
from collections.abc import Generator, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.sampling import drawn_temperature
from antiphon.contracts.types import AudioChunk, Sampling
from antiphon.errors import EngineError
from antiphon.families.moss_tts_nano.checkpoint import read_checkpoint
from antiphon.families.moss_tts_nano.prompt import MossPrompt, check_trust
from antiphon.families.moss_tts_nano.remote_model import RequestRandomness, load_remote
from antiphon.nn.device import resolve_device, resolve_dtype

_TEXT_SAMPLING = {"text_temperature": 1.0, "text_top_p": 1.0, "text_top_k": 50}
"""Defaults of the official program for the text channel, which draws the end of the text."""


class MossGenerator:
    """Runs one request at a time, because the model stores the state of a request."""

    def __init__(self, context: LoadContext) -> None:
        """Load model and codec with the code of their checkpoints; raises ModelLoadError."""
        self._checkpoint = read_checkpoint(check_trust(context))
        self._device = resolve_device(context.device, context.memory_fraction, context.cpu_threads)
        self._dtype = resolve_dtype(context.dtype, self._device)
        self._turn = threading.Lock()
        self._model: Any = None
        self._codec: Any = None
        self._is_loaded = self._is_closed = False
        self._load()

    def generate(self, prompt: Prompt) -> Generator[AudioChunk, None, None]:
        """Yield a chunk for each of the model's events that has audio.

        After a failure the model is reloaded for the next request, because its state is undefined.

        Raises:
            EngineError: another request is running, the model made no audio or audio of another
                format, or the generator is closed.
        """
        if not self._turn.acquire(blocking=False):
            raise EngineError("The model speaks to one at a time; a request is under way.")
        has_failed = True
        try:
            if self._is_closed:
                raise EngineError("The model is not loaded any more.")
            if not self._is_loaded:
                self._load()
            yield from self._speak(prompt)
            has_failed = False
        except GeneratorExit:  # the client has disconnected
            has_failed = False
            raise
        finally:
            self._is_loaded = self._is_loaded and not has_failed
            self._turn.release()

    def close(self) -> None:
        """Free the model, after the end of a running request."""
        self._is_closed = True
        self._forget()

    def _forget(self) -> None:
        self._model = self._codec = None
        self._is_loaded = False

    def _load(self) -> None:
        self._forget()  # two models may not fit into memory
        found = self._checkpoint
        self._model = load_remote(
            found.path, "AutoModelForCausalLM", device=self._device, dtype=self._dtype
        )
        # The codec accumulates long sums, so it is in float32, as in the official program.
        self._codec = load_remote(
            found.codec_path, "AutoModel", device=self._device, dtype=torch.float32
        )
        # As in the official program: a checkpoint may require kernels that are not installed.
        if hasattr(self._model, "_set_attention_implementation"):
            self._model._set_attention_implementation("sdpa")
        if hasattr(self._codec, "set_attention_implementation"):
            self._codec.set_attention_implementation("sdpa")
        self._is_loaded = True

    def _speak(self, prompt: Prompt) -> Generator[AudioChunk, None, None]:
        asked = prompt.data
        assert isinstance(asked, MossPrompt)
        random = RequestRandomness(prompt.seed, self._device)
        has_audio = False
        with TemporaryDirectory(prefix="antiphon-") as folder:
            arguments = self._arguments(asked, prompt.sampling, Path(folder))
            with closing(self._model.inference_stream(**arguments)) as events:
                while True:
                    with random:
                        event = next(events, None)
                    if event is None:
                        break
                    if event.get("type") == "audio":
                        chunk = self._chunk(event)
                        has_audio = has_audio or len(chunk.samples) > 0
                        yield chunk
        if not has_audio:
            raise EngineError("The model ended without any audio.")

    def _arguments(self, asked: MossPrompt, sampling: Sampling, folder: Path) -> dict[str, Any]:
        recording = asked.voice.recording
        assert sampling.temperature is not None, "the prompter fills defaults in"
        temperature = drawn_temperature(sampling.temperature)
        return {
            "text": asked.text,
            "output_audio_path": str(folder / "speech.wav"),
            "mode": "continuation" if recording is None else "voice_clone",
            "prompt_text": asked.voice.transcript,
            "prompt_audio_path": None if recording is None else str(recording),
            "text_tokenizer_path": str(self._checkpoint.path),
            "audio_tokenizer": self._codec,
            "device": self._device,
            "nq": None,
            "max_new_frames": sampling.max_frames,
            "do_sample": temperature != 0,
            "use_kv_cache": True,
            **_TEXT_SAMPLING,
            "audio_temperature": temperature or 1.0,
            "audio_top_p": sampling.top_p,
            "audio_top_k": sampling.top_k,
            "audio_repetition_penalty": sampling.repetition_penalty,
        }

    def _chunk(self, event: Mapping[str, Any]) -> AudioChunk:
        """Return an event's audio after checking its sample rate and channels."""
        found = self._checkpoint
        waveform = torch.as_tensor(event["waveform"]).detach().to("cpu", torch.float32)
        channels = waveform.reshape(1, -1) if waveform.ndim == 1 else waveform
        rate_hz = int(event["sample_rate"])
        if rate_hz != found.sample_rate_hz or channels.shape[0] != found.channels:
            raise EngineError(
                f"The model made {channels.shape[0]} channel(s) at {rate_hz} Hz; its codec declares"
                f" {found.channels} at {found.sample_rate_hz} Hz."
            )
        samples = channels.T.contiguous().numpy()
        samples = np.clip(samples[:, 0] if found.channels == 1 else samples, -1.0, 1.0)
        num_frames = -(-len(samples) // found.samples_per_frame)
        return AudioChunk(np.ascontiguousarray(samples), rate_hz, num_frames)
