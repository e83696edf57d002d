"""From a request to its audio, what is said is what the official package says of the same text.

`test_parity.py` compares prompts and codes; here nothing on the way may change the text either.
"""

from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.codec.host.threaded_decoder import ThreadedDecoder
from antiphon.config import ModelSettings, Settings
from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import AudioChunk, Samples, Sampling, SpeechRequest
from antiphon.families.qwen3_tts.codec import load_codec
from antiphon.offline import Antiphon
from antiphon.pipeline.speech.text_stream import SpeechSession
from tests.families.qwen3_tts.oracle.cases import SPOKEN_CASES, Case
from tests.families.qwen3_tts.oracle.refresh import FIXTURES
from tests.servers import RunningServer, start_server

FRAME_SAMPLES = 1920
LOUDEST_ERROR = 2e-5
LATE_CASES = [case for case in SPOKEN_CASES if case.id in ("spoken-chinese-streamed",)]
cases = pytest.mark.parametrize("case", SPOKEN_CASES, ids=lambda case: case.id)
# Slow: what the library does with a text, a server does too, and is asked all of them.
few_cases = pytest.mark.parametrize(
    "case",
    [
        case if number < 2 else pytest.param(case, marks=pytest.mark.slow)
        for number, case in enumerate(SPOKEN_CASES)
    ],
    ids=lambda case: case.id,
)


@cache
def recorded(case: Case) -> NDArray[np.int64]:
    with np.load(FIXTURES / "spoken.npz") as file:
        return np.asarray(file[case.id], np.int64)


def decoded(path: Path, codes: NDArray[np.int64]) -> Samples:
    codec = load_codec(LoadContext(path, "cpu"))
    assert isinstance(codec, ThreadedDecoder)
    return codec.decoder.decode_row(codes, codec.open(1), 0)


def check(case: Case, path: Path, audio: Samples, max_error: float) -> None:
    """Compare with the recorded frames; one that was cut by the limit may go on."""
    codes = recorded(case)
    expected = decoded(path, codes)
    if len(codes) < case.max_new_tokens - 1:
        assert len(audio) == len(expected)
    np.testing.assert_allclose(audio[: len(expected)], expected, rtol=0, atol=max_error)


def request_of(case: Case) -> SpeechRequest:
    return SpeechRequest(
        case.text,
        voice=case.speaker,
        sampling=Sampling(temperature=0.0, max_frames=case.max_new_tokens),
        options={"non_streaming_mode": case.non_streaming},
    )


@pytest.fixture(scope="module")
def path(parity_checkpoint: Callable[[str], Path]) -> Path:
    return parity_checkpoint("custom")


@pytest.fixture(scope="module")
def antiphon(path: Path) -> Generator[Antiphon, None, None]:
    with Antiphon.load(str(path), device="cpu", dtype="float32", max_slots=4) as antiphon:
        yield antiphon


@pytest.fixture(scope="module")
def server(path: Path) -> Generator[RunningServer, None, None]:
    model = ModelSettings(source=str(path), device="cpu", dtype="float32", max_slots=4)
    with start_server(Settings(model=model)) as running:
        yield running


@few_cases
def test_the_library_says_what_the_official_package_says(
    case: Case, path: Path, antiphon: Antiphon
) -> None:
    check(case, path, antiphon.speech(request_of(case)).samples, LOUDEST_ERROR)


@cases
def test_the_server_says_what_the_official_package_says(
    case: Case, path: Path, server: RunningServer
) -> None:
    body = {
        "input": case.text,
        "voice": case.speaker,
        "temperature": 0,
        "max_new_tokens": case.max_new_tokens,
        "non_streaming_mode": case.non_streaming,
        "response_format": "pcm",
    }
    response = httpx.post(f"{server.base_url}/v1/audio/speech", json=body, timeout=60)
    assert response.status_code == 200, response.text
    samples = np.frombuffer(response.content, "<i2").astype(np.float32) / np.float32(32_768)
    check(case, path, samples, LOUDEST_ERROR + 1 / 32_768)


@pytest.mark.parametrize("size", [1, pytest.param(3, marks=pytest.mark.slow), 100])
@pytest.mark.parametrize("case", LATE_CASES, ids=lambda case: case.id)
def test_text_that_streams_in_says_it_too(
    case: Case, size: int, path: Path, server: RunningServer
) -> None:
    async def said() -> list[Samples]:
        session = SpeechSession(server.state.speech)
        utterance = session.open(request_of(case))
        for start in range(0, len(case.text), size):
            utterance.push(case.text[start : start + size])
        utterance.complete()
        chunks = [
            each.samples
            async for each in utterance.synthesis.events()
            if isinstance(each, AudioChunk)
        ]
        await session.end(utterance)
        return chunks

    check(case, path, np.concatenate(server.run(said())), LOUDEST_ERROR)
