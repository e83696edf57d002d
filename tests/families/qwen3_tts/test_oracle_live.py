"""The official package, installed beside us, says the same as we do: one request a task, live."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.codec.host.threaded_decoder import ThreadedDecoder
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.types import Samples, SpeechRequest, Voice
from antiphon.families.qwen3_tts.codec import load_codec
from antiphon.families.qwen3_tts.encoder import load_voice_encoder
from antiphon.families.qwen3_tts.language_model import load_runner
from antiphon.families.qwen3_tts.prompt import Qwen3TTSPrompter
from tests.engine.drive import generate
from tests.families.qwen3_tts.lm import GREEDY
from tests.families.qwen3_tts.oracle.cases import (
    LIVE_CASES,
    LIVE_CHECKPOINTS,
    Case,
    reference_audio,
)
from tests.families.qwen3_tts.oracle.environment import oracle_environment
from tests.families.qwen3_tts.oracle.refresh import run_in_oracle
from tests.families.qwen3_tts.random_checkpoint import make_full_checkpoint

pytestmark = pytest.mark.oracle

CHUNK_FRAMES = 7
Codes = NDArray[np.int64]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of all checkpoints of `oracle.cases.LIVE_CHECKPOINTS`."""
    folder = tmp_path_factory.mktemp("live")
    for name, (size, task, seed) in LIVE_CHECKPOINTS.items():
        chosen: Any = size
        make_full_checkpoint(folder / name, size=chosen, task=task, seed=seed)
    return folder


@pytest.fixture(scope="module")
def official(checkpoints: Path) -> Mapping[str, NDArray[Any]]:
    """Return what the official package says, as `oracle/speak.py` lists it."""
    file = checkpoints / "official.npz"
    run_in_oracle(oracle_environment(), "speak.py", checkpoints, file)
    with np.load(file) as arrays:
        return dict(arrays)


def heard_reference(path: Path, samples: Samples) -> PreparedVoice:
    """Hear a recording with a checkpoint's own encoders."""
    context = LoadContext(path, "cpu", "float32")
    encoder, prompter = load_voice_encoder(context), Qwen3TTSPrompter(context)
    prompter.use_encoder(lambda recording: encoder.encode(recording).data)
    return prompter.prepare_voice(samples, name="live")


def spoken_codes(case: Case, path: Path, reference: PreparedVoice | None) -> Codes:
    options: dict[str, Any] = {"non_streaming_mode": case.non_streaming}
    if reference is not None:
        options |= {"ref_audio": reference, "ref_text": case.reference_text}
    request = SpeechRequest(
        input=case.text,
        language=case.language,
        instructions=case.instructions,
        sampling=GREEDY,
        options=options,
    )
    name = case.speaker or "default"
    context = LoadContext(path, "cpu", "float32", max_slots=1)
    prompt = Qwen3TTSPrompter(context).build(request, Voice(id=name, name=name), seed=0)
    runner = load_runner(context, max_positions=512)
    frames = generate(runner, {0: prompt}, case.max_new_tokens)[0].frames
    return np.array(frames[: case.max_new_tokens - 1])


def streamed_audio(path: Path, codes: Codes, reference: Codes | None) -> Samples:
    """Decode piece by piece, as a stream does, after what leads to the first frame."""
    codec = load_codec(LoadContext(path, "cpu"))
    assert isinstance(codec, ThreadedDecoder)
    state = codec.open(1)
    if reference is not None:
        codec.decoder.decode_row(reference, state, 0)
    pieces = [
        codec.decoder.decode_row(codes[start : start + CHUNK_FRAMES], state, 0)
        for start in range(0, len(codes), CHUNK_FRAMES)
    ]
    return np.concatenate(pieces)


@pytest.mark.parametrize("case", LIVE_CASES, ids=lambda case: case.id)
def test_codes_and_audio_are_what_the_official_package_makes(
    case: Case, checkpoints: Path, official: Mapping[str, NDArray[Any]]
) -> None:
    path = checkpoints / case.checkpoint
    voice = None
    if case.reference is not None:
        voice = heard_reference(path, reference_audio(case.reference))
        assert voice.ref_codes is not None
        assert np.array_equal(voice.ref_codes, official[f"{case.id}/reference/codes"])
        speaker = official[f"{case.id}/reference/speaker"]
        assert voice.speaker_embedding is not None
        np.testing.assert_allclose(voice.speaker_embedding, speaker, rtol=0, atol=1e-4)
    codes = spoken_codes(case, path, voice)
    assert len(codes) > 1
    assert codes.tolist() == official[f"{case.id}/codes"].tolist()
    audio = streamed_audio(path, codes, voice.ref_codes if voice else None)
    np.testing.assert_allclose(audio, official[f"{case.id}/audio"], rtol=0, atol=2e-5)
