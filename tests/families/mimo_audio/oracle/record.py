"""Records what the official modules compute of a tiny random checkpoint, as numbers alone.

MIMO_AUDIO_UPSTREAM=<a clone of MiMo-Audio> python -m tests.families.mimo_audio.oracle.record
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from antiphon.families.mimo_audio.config import TOKENIZER_NAME, load_config, load_tokenizer_config
from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer
from tests.families.mimo_audio.oracle.upstream import import_upstream, load_model, load_tokenizer
from tests.families.mimo_audio.random_checkpoint import make_checkpoint

FIXTURE = Path(__file__).parent.parent / "fixtures" / "upstream.npz"
SEED = 3
PROMPT = "Please convert this text to speech: Hi."
NUM_STEPS, NUM_KEPT_SAMPLES = 14, 400
CODE_FRAMES = (4, 20, 28, 100)
_IDS = {
    "sosp_idx": "<|sosp|>",
    "eosp_idx": "<|eosp|>",
    "sostm_idx": "<|sostm|>",
    "eostm_idx": "<|eostm|>",
    "eot_idx": "<|eot|>",
    "empty_idx": "<|empty|>",
}


def record(path: Path) -> dict[str, Any]:
    language, audio = import_upstream()
    config = load_config(path)
    tokenizer = load_text_tokenizer(path, config.vocab_size)
    ids = {field: tokenizer.encode([name])[0] for field, name in _IDS.items()}
    with torch.inference_mode():
        arrays = _speak(language, load_model(language, path, ids), tokenizer.encode([PROMPT]))
        official = load_tokenizer(audio, path / TOKENIZER_NAME)
        sizes = load_tokenizer_config(path / TOKENIZER_NAME, config).code_sizes[:8]
        for count in CODE_FRAMES:
            arrays |= _decode(official, sizes, count)
        mels = torch.from_numpy(
            random_mels(load_tokenizer_config(path / TOKENIZER_NAME, config).num_mels)
        )
        codes, _ = official.encoder.encode(mels, torch.tensor([len(mels)]), return_codes_only=True)
        arrays["encoded"] = codes.T[:, :8].numpy().astype(np.int16)
    return arrays


def random_mels(num_mels: int) -> Any:
    """Return a spectrogram of noise, float32 ``[num_frames, num_mels]``."""
    return np.random.default_rng(5).normal(-4, 2, (301, num_mels)).astype(np.float32)


def random_codes(sizes: tuple[int, ...], count: int) -> Any:
    generator = np.random.default_rng(count)
    return np.stack([generator.integers(0, size, count) for size in sizes], axis=1)


def _speak(language: Any, model: Any, ids: list[int]) -> dict[str, Any]:
    """Go on after a prompt by the likeliest text and codes; the two kinds of steps as they come."""
    group, empty = model.group_size, torch.tensor(model.speech_empty_ids)
    greedy = language.MiMoSampler(do_sample=False)
    rows = [torch.cat((torch.tensor([number]), empty)).repeat(group, 1) for number in ids]
    frames, hidden, logits = [], [], []
    for _ in range(NUM_STEPS):
        # All of it anew in each step: nothing of a cache can be wrong.
        tokens = torch.cat(rows).T[None]
        count = len(rows)
        out = model(
            tokens,
            torch.ones(1, count, dtype=torch.bool),
            torch.arange(count)[None],
            use_cache=True,
        )
        text = out.text_logits[:, -1].argmax(-1)
        codes = model.local_forward(out.local_hidden_states, torch.int64, text.device, greedy)[0]
        if text.item() != model.args.empty_idx:
            codes = empty.expand(group, -1)
        frames.append([text.item(), *codes.flatten().tolist()])
        hidden.append(out.local_hidden_states[0, 0].numpy())
        logits.append(out.text_logits[0, 0].numpy())
        rows.append(torch.cat((text.expand(group, 1), codes), dim=1))
    return {
        "frames": np.array(frames, np.int16),
        "hidden": np.array(hidden, np.float32),
        "logits": np.array(logits[::6], np.float32),
    }


def _decode(official: Any, sizes: tuple[int, ...], count: int) -> dict[str, Any]:
    samples = official.decode(torch.from_numpy(random_codes(sizes, count)).T)[0, 0].numpy()
    step = max(1, len(samples) // NUM_KEPT_SAMPLES)
    return {f"samples_{count}": samples[::step]}


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        make_checkpoint(path, seed=SEED)
        arrays = record(path)
    FIXTURE.parent.mkdir(exist_ok=True)
    np.savez_compressed(FIXTURE, **arrays)


if __name__ == "__main__":
    main()
