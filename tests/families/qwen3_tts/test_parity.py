"""Greedy speech equals the official package's, code by code, over every task and layout of text."""

import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import SpeechRequest, Voice
from antiphon.families.qwen3_tts.checkpoint import codec_decoder_part
from antiphon.families.qwen3_tts.codec import decoder_of
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.language_model import load_runner
from antiphon.families.qwen3_tts.prompt import Qwen3TTSPrompter
from antiphon.nn.weights import open_weights
from tests.engine.drive import Generated, generate
from tests.families.qwen3_tts.lm import GREEDY
from tests.families.qwen3_tts.oracle.cases import CASES, REFERENCES, Case, reference_audio
from tests.families.qwen3_tts.parity import Recorded, recorded, recorded_reference

MAX_POSITIONS = 512
SAMPLES_PER_FRAME = 1920

Heard: TypeAlias = Callable[[str], dict[str, Generated]]
RECORDED = {each.case.id: each for each in recorded()}


@pytest.fixture(scope="module")
def heard(parity_checkpoint: Callable[[str], Path]) -> Heard:
    """Return what a checkpoint says of each of its cases: the first alone, the others together."""

    @cache
    def hear_all(name: str) -> dict[str, Generated]:
        path = parity_checkpoint(name)
        first, *others = [case for case in CASES if case.checkpoint == name]
        found = dict[str, Generated]()
        for cases, is_batched in (([first], False), (others, True)):
            context = LoadContext(path, "cpu", "float32", max_slots=len(cases))
            runner = load_runner(context, max_positions=MAX_POSITIONS, is_batched=is_batched)
            prompts = {slot: build(case, path) for slot, case in enumerate(cases)}
            spoken = generate(
                runner, prompts, max_frames=max(each.max_new_tokens for each in cases)
            )
            found |= {case.id: spoken[slot] for slot, case in enumerate(cases)}
        return found

    return hear_all


def build(case: Case, path: Path) -> Prompt:
    options: dict[str, Any] = {"non_streaming_mode": case.non_streaming}
    if case.reference is not None:
        heard = recorded_reference(case.reference)
        options["ref_audio"] = PreparedVoice(
            name=case.reference,
            family="qwen3_tts",
            speaker_embedding=heard.speaker,
            ref_codes=heard.codes,
        )
        options["ref_text"] = case.reference_text
        options["x_vector_only_mode"] = case.reference_text is None
    request = SpeechRequest(
        input=case.text,
        language=case.language,
        instructions=case.instructions,
        sampling=replace(GREEDY, max_frames=case.max_new_tokens),
        options=options,
    )
    name = case.speaker or "default"
    return Qwen3TTSPrompter(LoadContext(path)).build(request, Voice(id=name, name=name), seed=0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_codes_are_the_official_ones(case: Case, heard: Heard) -> None:
    num_frames_allowed, found = case.max_new_tokens - 1, heard(case.checkpoint)[case.id]
    official = RECORDED[case.id].codes
    assert found.codes[:num_frames_allowed] == official.tolist()
    if len(official) < num_frames_allowed:
        assert found.end == "stop"


@pytest.mark.parametrize(
    "official",
    [each for each in RECORDED.values() if each.audio is not None],
    ids=lambda r: r.case.id,
)
def test_audio_is_the_official_one(
    official: Recorded, parity_checkpoint: Callable[[str], Path]
) -> None:
    path = parity_checkpoint(official.case.checkpoint)
    config = load_config(path)
    with open_weights(codec_decoder_part(path, config), like=torch.empty(0)) as weights:
        decoder = decoder_of(weights, config.codec.decoder)
    codes, num_led = official.codes, 0
    if official.case.reference is not None and official.case.reference_text is not None:
        reference = recorded_reference(official.case.reference).codes
        codes, num_led = np.concatenate((reference, codes)), len(reference)
    audio = decoder.decode_whole(torch.from_numpy(codes).T[None])[0, num_led * SAMPLES_PER_FRAME :]
    assert official.audio is not None
    np.testing.assert_allclose(audio.numpy(), official.audio, atol=2e-5)


@pytest.mark.parametrize("name", REFERENCES)
def test_references_are_made_as_they_were_recorded(name: str) -> None:
    assert zlib.crc32(reference_audio(name).tobytes()) == recorded_reference(name).checksum
