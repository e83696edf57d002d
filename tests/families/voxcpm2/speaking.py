"""Drives the family's runner and decoder as the engine does."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.codec.protocol import StreamingDecoder
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Samples, Sampling, SpeechRequest
from antiphon.engine.plan import CodecChunk
from antiphon.families.voxcpm2.audio_vae_stages import load_voice_encoder
from antiphon.families.voxcpm2.config import load_config
from antiphon.families.voxcpm2.language_model import load_runner
from antiphon.families.voxcpm2.prompt import VoxCPM2Prompter
from antiphon.families.voxcpm2.request import patches_of
from tests.engine.drive import Generated
from tests.families.language_models import LanguageModel
from tests.families.voxcpm2.oracle.cases import continued, reference
from tests.families.weight_edits import write_rows

DEFAULT = Sampling()


def ask(
    prompter: VoxCPM2Prompter,
    text: str = "Hello there.",
    seed: int = 1,
    *,
    instructions: str | None = None,
    sampling: Sampling = DEFAULT,
    **options: Any,
) -> Prompt:
    request = SpeechRequest(text, instructions=instructions, sampling=sampling, options=options)
    return prompter.build(request, prompter.capabilities.voices[0], seed)


def patches(generated: Generated) -> NDArray[np.float32]:
    return patches_of(np.stack(generated.frames))


def decode(
    codec: StreamingDecoder,
    frames: Sequence[NDArray[np.int64]],
    sizes: Sequence[int] | None = None,
    context: NDArray[Any] | None = None,
) -> Samples:
    """Decode a stream in chunks of these sizes; default: all at once."""
    state = codec.open(2)
    if context is not None:
        codec.prime(state, 1, context)
    store = np.zeros((2, len(frames), len(frames[0])), np.int64)
    store[1] = frames
    start, chunks = 0, []
    for size in sizes or (len(frames),):
        chunks.append(codec.launch([CodecChunk(1, start, size)], store, state).result()[1])
        start += size
    return np.concatenate(chunks)


def make_ending(path: Path) -> None:
    """Make the end far likelier or unlikelier than another frame, by turns of the state."""
    values = np.random.default_rng(0).standard_normal(load_config(path).base.hidden_size)
    row = (50 * values).astype(np.float32)
    write_rows(path, {"stop_head.weight": {0: -row, 1: row}})


def _prompts(path: Path) -> dict[int, Prompt]:
    context = LoadContext(path, "cpu", "float32")
    prompter, encoder = VoxCPM2Prompter(context), load_voice_encoder(context)
    prompter.use_encoder(lambda recording: encoder.encode(recording).data)
    return {
        0: ask(prompter, "One.", 1, inference_timesteps=2, cfg_value=1.0),
        1: ask(prompter, "Another one, longer.", 2, ref_audio=reference()),
        2: ask(prompter, "A third.", 3, inference_timesteps=13, cfg_value=4.0),
        3: ask(prompter, "More", 4, prompt_audio=continued(), prompt_text="Said."),
    }


# A patch is the next one's input: what a batch rounds differently grows.
LANGUAGE_MODEL = LanguageModel(load_runner, _prompts, make_ending, num_batch_codes=0)
