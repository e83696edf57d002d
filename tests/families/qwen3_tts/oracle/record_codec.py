"""Records what the official codec and speaker encoder make of a checkpoint of random weights.

Runs inside the oracle's environment: ``python record_codec.py CHECKPOINT FILE.npz``, where the
checkpoint is ``make_full_checkpoint(path, size="tiny", task="base")``. All in float32 on the CPU.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

torch: Any = import_module("torch")

SAMPLE_RATE_HZ = 24000
NUM_FRAMES = 100
WAVE_STEP = 61
"""Of the decoded samples only every so many are kept: enough to see any difference."""
NUM_REFERENCE_SAMPLES = 300_007
"""More than 250 steps of the encoder, and an incomplete frame at the end."""


def record(checkpoint: Path) -> dict[str, NDArray[Any]]:
    model = _model("Qwen3TTSForConditionalGeneration").from_pretrained(
        checkpoint, dtype=torch.float32
    )
    codec = _codec("Qwen3TTSTokenizerV2Model").from_pretrained(
        checkpoint / "speech_tokenizer", dtype=torch.float32
    )
    random = np.random.Generator(np.random.PCG64(1))
    codes = random.integers(0, 2048, (16, NUM_FRAMES))
    clip = _clip(random)
    reference = np.resize(clip, NUM_REFERENCE_SAMPLES).astype(np.float32) / 32768
    samples = torch.from_numpy(reference)[None]
    with torch.inference_mode():
        wave = codec.decoder(torch.from_numpy(codes)[None])[0, 0]
        encoded = codec.encode(samples, torch.ones_like(samples, dtype=torch.int64)).audio_codes[0]
        speaker = model.extract_speaker_embedding(reference, SAMPLE_RATE_HZ)
    filters = import_module("librosa").filters.mel(sr=SAMPLE_RATE_HZ, n_fft=1024, n_mels=128)
    return {
        "codes": codes.astype(np.int16),
        "wave": wave[::WAVE_STEP].numpy(),
        "clip": clip,
        "encoded": encoded.numpy().astype(np.int16),
        "speaker": speaker.numpy(),
        "mel_filters": filters,
    }


def _clip(random: np.random.Generator) -> NDArray[np.int16]:
    """Return half a second of tones that rise and fall, with noise."""
    seconds = np.arange(SAMPLE_RATE_HZ // 2) / SAMPLE_RATE_HZ
    tones = sum(
        np.sin(2 * np.pi * (hz + 100 * seconds) * seconds) / number
        for number, hz in enumerate((140, 290, 610, 1230, 2900), 1)
    )
    envelope = 0.5 + 0.5 * np.sin(2 * np.pi * 4 * seconds)
    noise = random.standard_normal(len(seconds))
    return np.asarray((0.2 * tones * envelope + 0.02 * noise) * 32767, np.int16)


def _model(name: str) -> Any:
    return vars(import_module("qwen_tts.core.models.modeling_qwen3_tts"))[name]


def _codec(name: str) -> Any:
    module = "qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2"
    return vars(import_module(module))[name]


if __name__ == "__main__":
    arrays: dict[str, Any] = dict(record(Path(sys.argv[1])))
    np.savez_compressed(sys.argv[2], **arrays)
