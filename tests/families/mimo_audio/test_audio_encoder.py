"""Recordings become codes, those of the official encoder, and codes a part of the prompt."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from antiphon.config import ModelSettings, SpeechSettings
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.types import Samples, Sampling, SpeechRequest
from antiphon.errors import InvalidRequestError
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.families.mimo_audio.audio_encoder import (
    AudioEncoder,
    load_audio_encoder,
    load_voice_encoder,
    mel_filters,
)
from antiphon.families.mimo_audio.config import load_config, load_tokenizer_config, tokenizer_path
from antiphon.families.mimo_audio.language_model import load_runner
from antiphon.families.mimo_audio.prompt import MiMoAudioPrompt, MiMoAudioPrompter, audio_groups
from antiphon.families.mimo_audio.text_tokenizer import load_text_tokenizer
from antiphon.nn.row_lengths import RowLengths
from antiphon.offline import collect
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.service import Speech
from tests.engine.copying import assert_copies_exactly
from tests.families.mimo_audio.oracle.record import FIXTURE, random_mels


@pytest.fixture(scope="module")
def encoder(checkpoint: Path) -> ClonedVoiceEncoder:
    return load_voice_encoder(LoadContext(checkpoint, device="cpu"))


@pytest.fixture(scope="module")
def inner(checkpoint: Path) -> AudioEncoder:
    return load_audio_encoder(LoadContext(checkpoint, device="cpu"))


@pytest.fixture(scope="module")
def prompter(checkpoint: Path, encoder: ClonedVoiceEncoder) -> MiMoAudioPrompter:
    prompter = MiMoAudioPrompter(LoadContext(checkpoint))
    prompter.use_encoder(lambda recording: encoder.encode(recording).data)
    return prompter


EMPTY = np.array([[0] * 8, [0, 0, 8, 0, 0, 0, 0, 0]])
"""Codes, of which one says that there is none."""


def recording(num_samples: int = 24000) -> Samples:
    return np.random.default_rng(1).normal(0, 0.1, num_samples).astype(np.float32)


def build(prompter: MiMoAudioPrompter, **more: Any) -> MiMoAudioPrompt:
    request = SpeechRequest("Good day.", **more)
    data = prompter.build(request, prompter.capabilities.voices[0], 1).data
    assert isinstance(data, MiMoAudioPrompt)
    return data


def test_codes_are_the_official_ones(inner: AudioEncoder) -> None:
    with np.load(FIXTURE) as recorded, torch.inference_mode():
        mels = torch.from_numpy(random_mels(16)).T[None]
        codes = inner.encode_mels(mels, RowLengths(torch.tensor([mels.shape[2]])))[0]
        np.testing.assert_array_equal(codes.numpy(), recorded["encoded"])


def test_mel_filters_are_those_of_torchaudio(checkpoint: Path) -> None:
    """By transformers, which says that these arguments make it torchaudio's."""
    utilities = pytest.importorskip("transformers.audio_utils", reason="needs the extra 'omni'")
    config = load_tokenizer_config(tokenizer_path(checkpoint), load_config(checkpoint))
    wanted = utilities.mel_filter_bank(481, 16, 0.0, 12000.0, 24000, norm=None, mel_scale="htk")
    np.testing.assert_allclose(mel_filters(config).numpy(), wanted.T, atol=1e-5)


def test_a_mel_frame_is_10_ms(inner: AudioEncoder) -> None:
    length = torch.tensor([24000])
    mels = inner.mels(torch.from_numpy(recording())[None], length)
    assert mels.shape == (1, 16, 101)
    silence = inner.mels(torch.zeros(1, 24000), length)
    assert silence.max().item() == pytest.approx(np.log(1e-7), abs=1e-4)


@torch.inference_mode()
def test_what_is_behind_a_recording_changes_no_code(inner: AudioEncoder) -> None:
    lengths = (12000, 17001, 19200, 30239)
    samples = torch.randn(len(lengths), 30720)
    rows = torch.tensor(lengths)
    made = inner.encode_rows(inner.mels(samples, rows), rows)
    for length, row, codes in zip(lengths, samples, made, strict=True):
        alone = inner.encode(row[:length])
        assert inner.num_frames(length) == len(alone)
        # A tie that rounding decides changes a code, and those after it in its frame.
        assert (codes[: len(alone)] == alone).all(dim=1).float().mean() > 0.9


def test_a_voice_stands_in_front(prompter: MiMoAudioPrompter, checkpoint: Path) -> None:
    tokenizer = load_text_tokenizer(checkpoint, 272)
    plain = build(prompter, instructions="softly").groups
    groups = build(prompter, options={"ref_audio": recording()}).groups
    is_heard = groups[:, 0] == tokenizer.empty_id
    assert is_heard.sum() == 7  # 26 frames, of which the last fills up the group
    assert not (plain[:, 0] == tokenizer.empty_id).any()
    first, last = np.flatnonzero(is_heard)[[0, -1]]
    around = groups[[first - 1, last + 1], 0].tolist()
    assert around == tokenizer.encode(["<|sosp|>", "<|eosp|>"])
    assert (groups[last, 25:33] == groups[last, 17:25]).all()
    keys = prompter.build(
        SpeechRequest("Good day.", options={"ref_audio": recording()}),
        prompter.capabilities.voices[0],
        1,
    ).position_keys
    num_different = len(np.unique(groups[is_heard], axis=0))
    assert len(set(np.array(keys)[is_heard[:-1]])) == num_different > 1


def test_a_prepared_voice_is_the_same_as_its_recording(prompter: MiMoAudioPrompter) -> None:
    voice = prompter.prepare_voice(recording(), name="anna")
    one, other = (
        build(prompter, options={"ref_audio": each}).groups for each in (recording(), voice)
    )
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "given",
    [
        recording(2000),
        recording(24000 * 31),
        PreparedVoice(name="x", family="another", ref_codes=np.zeros((4, 8), np.int64)),
        PreparedVoice(name="x", family="mimo_audio", ref_codes=np.zeros((4, 3), np.int64)),
        PreparedVoice(name="x", family="mimo_audio", ref_codes=np.full((4, 8), 99)),
        PreparedVoice(name="x", family="mimo_audio", ref_codes=EMPTY),
        "a file",
    ],
    ids=["short", "long", "another family", "channels", "codes", "no code", "text"],
)
def test_what_will_not_do_names_its_field(prompter: MiMoAudioPrompter, given: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        build(prompter, options={"ref_audio": given})
    assert caught.value.param == "ref_audio"


def test_a_recording_changes_what_is_heard(checkpoint: Path) -> None:
    voices = [{}, {"ref_audio": recording()}]
    plain, cloned = asyncio.run(say_with_voices(checkpoint, voices))
    assert len(plain)
    assert len(cloned)
    assert not np.array_equal(plain, cloned)


async def say_with_voices(checkpoint: Path, voices: Sequence[Mapping[str, Any]]) -> list[Samples]:
    settings = ModelSettings(source=str(checkpoint), device="cpu", max_slots=2)
    model = await SpeechModel.load(settings)
    speech = Speech({model.name: model}, SpeechSettings())
    try:
        sampling = Sampling(max_frames=12)
        requests = [
            SpeechRequest("Hi.", seed=1, sampling=sampling, options=options) for options in voices
        ]
        return [(await collect(speech.stream(each))).samples for each in requests]
    finally:
        speech.close()
        await model.close()


def test_copies_of_what_is_before_the_text_change_nothing(
    prompter: MiMoAudioPrompter, checkpoint: Path
) -> None:
    with closing(load_runner(LoadContext(checkpoint, "cpu", "float32", 2))) as runner:
        cases: list[dict[str, Any]] = [
            {},
            {"instructions": "softly"},
            {"options": {"ref_audio": recording()}},
        ]
        for fields in cases:
            one, other = (
                prompter.build(
                    SpeechRequest(text, sampling=Sampling(max_frames=3), **fields),
                    prompter.capabilities.voices[0],
                    1,
                )
                for text in ("Good day.", "A second one.")
            )
            first = other.num_common_positions
            rest = (each.data.groups[first:, 0].tolist() for each in (one, other))
            encode = load_text_tokenizer(checkpoint, 272).encode
            assert [each[:2] for each in rest] == [encode([" G"]), encode([" A"])]
            assert_copies_exactly(runner, one, other)


def test_the_last_frame_fills_up_the_last_group(checkpoint: Path) -> None:
    codes = np.arange(5)[:, None] + np.zeros(8, np.int64)
    groups = audio_groups(load_config(checkpoint), codes, 261)
    assert groups[:, 1:].reshape(8, 8)[:, 0].tolist() == [0, 1, 2, 3, 4, 4, 4, 4]
