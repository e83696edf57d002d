"""Requests that no prompt can be built of are refused with the field's name."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from antiphon.contracts.types import SpeechRequest, Voice
from antiphon.errors import InvalidRequestError, UnknownVoiceError
from tests.families.qwen3_tts.prompter_desk import RECORDING, TEXT, Desk, prepared
from tests.families.qwen3_tts.random_checkpoint import FEW_GROUPS

REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("custom", {"task_type": "Base"}, "task_type", "does not support task_type='Base'"),
    ("design", {"task_type": "CustomVoice"}, "task_type", "VoiceDesign checkpoint"),
    ("custom", {"ref_audio": RECORDING}, "ref_audio", "only valid for Base task"),
    ("custom", {"ref_text": "hi"}, "ref_text", "only valid for Base task"),
    ("design", {"x_vector_only_mode": True}, "x_vector_only_mode", "only valid for Base task"),
    ("custom", {"speaker_embedding": [0.0]}, "speaker_embedding", "only valid for Base task"),
    ("design", {}, "instructions", "requires 'instructions'"),
    ("design", {"instructions": " "}, "instructions", "requires 'instructions'"),
    ("custom", {"instructions": "a" * 2001}, "instructions", "at most 2000"),
    ("base", {}, "ref_audio", "requires 'ref_audio' or 'speaker_embedding'"),
    ("base", {"ref_audio": b"RIFF"}, "ref_audio", "a prepared voice, or finite samples"),
    ("base", {"ref_audio": RECORDING.astype(float)}, "ref_audio", "float32, mono"),
    ("base", {"ref_audio": RECORDING + np.float32("nan")}, "ref_audio", "finite samples"),
    ("base", {"ref_audio": RECORDING}, "ref_text", "non-empty 'ref_text'"),
    ("base", {"ref_audio": RECORDING, "ref_text": " "}, "ref_text", "non-empty 'ref_text'"),
    ("base", {"ref_audio": replace(prepared(), family="toy")}, "ref_audio", "prepared for 'toy'"),
    (
        "base",
        {"ref_audio": replace(prepared(), speaker_embedding=None)},
        "ref_audio",
        "no speaker embedding",
    ),
    (
        "base",
        {"ref_audio": prepared(), "x_vector_only_mode": False},
        "ref_text",
        "non-empty 'ref_text'",
    ),
    ("base", {"ref_audio": prepared(), "ref_text": " "}, "ref_text", "non-empty 'ref_text'"),
    ("base", {"speaker_embedding": [0.0] * 63}, "speaker_embedding", "63 values.* needs 64"),
    ("base", {"speaker_embedding": []}, "speaker_embedding", "non-empty list"),
    ("base", {"speaker_embedding": ["a"]}, "speaker_embedding", "non-empty list"),
    ("base", {"speaker_embedding": "[1,"}, "speaker_embedding", "non-empty list"),
    ("base", {"speaker_embedding": [10**400] * 64}, "speaker_embedding", "at most 64 bits"),
    ("base", {"speaker_embedding": [1e39] * 64}, "speaker_embedding", "finite"),
    ("base", {"speaker_embedding": [float("nan")] * 64}, "speaker_embedding", "finite"),
    (
        "base",
        {"speaker_embedding": [0.0] * 64, "ref_audio": prepared()},
        "speaker_embedding",
        "mutually exclusive",
    ),
    (
        "base",
        {"ref_audio": replace(prepared(text="a"), ref_codes=np.full((3, FEW_GROUPS), 2048))},
        "ref_audio",
        "0 to 2047",
    ),
    ("base", {"ref_audio": prepared(4000, text="a")}, "ref_audio", "at most"),
    ("custom", {"language": "klingon"}, "language", "Invalid 'language': 'klingon'"),
    ("custom", {"language": "sichuan_dialect"}, "language", "Invalid 'language'"),
    ("custom", {"pitch": 3}, "pitch", "Unknown parameter"),
    ("custom", {"subtalker_top_p": 0.0}, "subtalker_top_p", "above 0 and at most 1"),
    ("custom", {"subtalker_temperature": float("inf")}, "subtalker_temperature", "finite"),
    ("custom", {"initial_codec_chunk_frames": -1}, "initial_codec_chunk_frames", "from 0 to"),
    ("custom", {"subtalker_temperature": 1e-38}, "subtalker_temperature", "0, or from 1e-06"),
    ("custom", {"subtalker_temperature": 1e300}, "subtalker_temperature", "to 100"),
    ("custom", {"subtalker_top_k": 2**31}, "subtalker_top_k", "2147483647"),
    ("custom", {"subtalker_top_k": 2**70}, "subtalker_top_k", "at most 64 bits"),
]


@pytest.mark.parametrize(("desk", "fields", "param", "message"), REFUSED, indirect=["desk"])
def test_wrong_requests_name_their_field(
    desk: Desk, fields: dict[str, Any], param: str, message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        desk.build(**fields)
    assert caught.value.param == param


def test_a_prompt_that_leaves_no_room_is_refused(custom: Desk) -> None:
    with pytest.raises(InvalidRequestError, match="at most") as caught:
        custom.build("a " * 3000)
    assert caught.value.param == "input"


def test_a_voice_of_another_checkpoint_is_unknown(custom: Desk) -> None:
    with pytest.raises(UnknownVoiceError):
        custom.prompter.build(SpeechRequest(TEXT), Voice(id="nobody", name="Nobody"), 1)
