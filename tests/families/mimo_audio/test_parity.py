"""Numbers of the official modules on the same random checkpoint, recorded by `oracle.record`."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from antiphon.codec.protocol import ElasticDecoder
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Samples, Sampling
from antiphon.engine.plan import CodecChunk, Start
from antiphon.families.mimo_audio.codec_stage import MiMoAudioCodec, load_codec
from antiphon.families.mimo_audio.config import load_config, load_tokenizer_config, tokenizer_path
from antiphon.families.mimo_audio.language_model import load_language_model, load_runner
from antiphon.families.mimo_audio.prompt import MiMoAudioPrompt, text_groups
from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer
from tests.engine.drive import Drive
from tests.families.mimo_audio.oracle.record import CODE_FRAMES, FIXTURE, PROMPT, random_codes


@pytest.fixture(scope="module")
def recorded() -> dict[str, NDArray[np.float32]]:
    with np.load(FIXTURE) as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def codec(checkpoint: Path) -> MiMoAudioCodec:
    return load_codec(LoadContext(checkpoint, device="cpu"))


def prompt(checkpoint: Path) -> Prompt:
    config = load_config(checkpoint)
    ids = load_text_tokenizer(checkpoint, config.vocab_size).encode([PROMPT])
    data = MiMoAudioPrompt(text_groups(config, ids), Sampling(temperature=0.0, top_k=0, top_p=1.0))
    return Prompt(
        data=data,
        num_tokens=len(ids),
        seed=1,
        sampling=Sampling(temperature=0.0, top_k=0, top_p=1.0),
        num_positions=len(ids) - 1,
    )


def decode(
    codec: MiMoAudioCodec, frames: NDArray[np.int64], sizes: tuple[int, ...] = (4, 12, 8)
) -> Samples:
    """Decode a stream in chunks of some sizes, in turn."""
    state, parts, start, turn = codec.open(2), [], 0, 0
    while start < len(frames) + codec.late_frames:
        size = sizes[turn % len(sizes)]
        is_last = start + size >= len(frames)
        store = np.zeros((2, 64, frames.shape[1]), np.int64)
        for number in range(start, min(start + size, len(frames))):
            store[1, number % 64] = frames[number]
        chunk = CodecChunk(1, start, size, len(frames) if is_last else None)
        parts.append(codec.launch([chunk], store, state).result()[1])
        start, turn = start + size, turn + 1
    return np.concatenate(parts)


def groups_of(codes: NDArray[np.int64], empty_id: int) -> NDArray[np.int64]:
    rows = codes.reshape(len(codes) // 4, -1)
    return np.concatenate((np.full((len(rows), 1), empty_id), rows), axis=1)


def test_steps_are_the_official_ones(
    checkpoint: Path, recorded: dict[str, NDArray[np.float32]]
) -> None:
    runner = load_runner(LoadContext(checkpoint, device="cpu", max_slots=2))
    drive = Drive(runner, piece_positions=16)
    made: list[NDArray[np.int64]] = []
    starts: tuple[Start, ...] = (Start(0, prompt(checkpoint)),)
    while len(made) < len(recorded["frames"]):
        output = drive.step([0], starts=starts)
        starts = ()
        made.append(output.frames[0])
    np.testing.assert_array_equal(np.stack(made), recorded["frames"])
    kinds = np.stack(made)[:, 0] == load_text_tokenizer(checkpoint, 1000).empty_id
    assert 0 < kinds.sum() < len(kinds), "text and speech should take turns"
    runner.close()


def test_states_are_the_official_ones(
    checkpoint: Path, recorded: dict[str, NDArray[np.float32]]
) -> None:
    """The whole prompt at once, by PyTorch's own causal attention."""
    model = load_language_model(LoadContext(checkpoint, device="cpu", max_slots=1))
    data = prompt(checkpoint).data
    groups = np.concatenate((data.groups, recorded["frames"][:-1].astype(np.int64)))
    with torch.inference_mode():
        inputs = model.embed_groups(torch.from_numpy(groups))[None]
        positions = torch.arange(len(groups))[None]
        hidden = model.forward(inputs, torch.zeros_like(positions), positions, [_causal])[0]
        begun = model.decoder.begin(hidden[len(data.groups) - 1 :])
    np.testing.assert_allclose(begun.numpy(), recorded["hidden"], atol=2e-5)


def _causal(layer: int, joined: torch.Tensor, heads: object, rotation: object) -> torch.Tensor:
    queries, keys, values = (each.transpose(1, 2) for each in heads(joined, rotation))  # type: ignore[operator]
    seen = torch.nn.functional.scaled_dot_product_attention(
        queries, keys, values, is_causal=True, enable_gqa=True
    )
    return seen.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("count", CODE_FRAMES)
def test_audio_is_the_official_one(
    checkpoint: Path,
    codec: MiMoAudioCodec,
    recorded: dict[str, NDArray[np.float32]],
    count: int,
) -> None:
    config = load_config(checkpoint)
    audio = load_tokenizer_config(tokenizer_path(checkpoint), config)
    codes = random_codes(audio.code_sizes[:8], count)
    samples = decode(codec, groups_of(codes, 261))
    assert len(samples) == count // 4 * audio.samples_per_group
    official = recorded[f"samples_{count}"]
    step = max(1, len(samples) // 400)
    difference = np.abs(samples[::step] - official)
    if count // 4 <= audio.norm_groups + 1:
        assert difference.max() < 1e-5
    else:  # the norms over time know no more than a second ahead
        assert difference.max() < 0.1 * np.abs(official).max()
        assert np.linalg.norm(difference) < 0.03 * np.linalg.norm(official)


@pytest.mark.parametrize("sizes", [(8,), (20,), (12, 4, 8)])
def test_how_groups_are_cut_into_chunks_changes_nothing(
    codec: MiMoAudioCodec, sizes: tuple[int, ...]
) -> None:
    """With text between them, which becomes no audio."""
    codes = groups_of(random_codes((32, 32, 8, 8, 8, 8, 8, 8), 36), 261)
    text = np.concatenate(([7], codes[0, 1:]))
    mixed = np.insert(codes, [0, 0, 0, 0, 0, 3, 5, 9], text, axis=0)
    made = decode(codec, mixed, (4,))
    np.testing.assert_array_equal(decode(codec, mixed, sizes), made)
    np.testing.assert_allclose(made, decode(codec, codes), atol=1e-5)


def test_it_is_an_elastic_decoder(codec: MiMoAudioCodec) -> None:
    assert isinstance(codec, ElasticDecoder)
