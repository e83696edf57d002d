"""An utterance is one stream however its text came, and its chunks pass few generators."""

import gc
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from types import AsyncGeneratorType

import httpx
import pytest

from antiphon.api.encoding import FileEncoding
from antiphon.concurrency import Workers
from antiphon.config import ModelSettings, SpeechSettings
from antiphon.contracts.types import SpeechRequest
from antiphon.formats import AudioFormat
from antiphon.pipeline.speech.model import SpeechModel
from antiphon.pipeline.speech.service import Speech
from tests.servers import TOY, start_server, wait_until
from tests.sockets import connected

MAX_GENERATORS = 5
SENTENCES = ("One. ", "Two. ", "Six.")


def test_an_utterance_counts_once_and_waiting_for_text_is_no_gap() -> None:
    pause_s = 0.2
    with start_server(TOY) as server:
        registry = server.state.speech.metrics.registry
        (name,) = server.state.speech.models

        def value(metric: str, **labels: str) -> float:
            return registry.get_sample_value(metric, {"model": name, **labels}) or 0.0

        body = {"input": "".join(SENTENCES), "response_format": "pcm"}
        httpx.post(f"{server.base_url}/v1/audio/speech", json=body).raise_for_status()
        wait_until(lambda: value("antiphon_speech_ended_total", reason="stop") == 1)
        heard_s = value("antiphon_audio_seconds_total")
        with connected(server, "/v1/audio/speech/stream") as talk:
            talk.send("session.config", response_format="pcm", stream_audio=True)
            for sentence in SENTENCES:
                talk.send("input.text", text=sentence)
                time.sleep(heard_s / len(SENTENCES) + pause_s)  # the audio so far is played out
            talk.send("input.done")
            talk.until("session.done")
        wait_until(lambda: value("antiphon_speech_ended_total", reason="stop") == 2)
        assert value("antiphon_underruns_total") == 0
        assert value("antiphon_underrun_seconds_total") == 0
        assert value("antiphon_first_audio_seconds_count") == 2
        assert value("antiphon_real_time_factor_sum") < 1
        assert value("antiphon_speech_active") == value("antiphon_speech_waiting") == 0


def generators() -> list[str]:
    """Return the names of all asynchronous generators that are alive."""
    gc.collect()
    return [each.__qualname__ for each in gc.get_objects() if type(each) is AsyncGeneratorType]


@pytest.mark.parametrize("source", ["toy", "late"])
@pytest.mark.parametrize(
    "arrives",
    [True, pytest.param(False, marks=pytest.mark.slow)],  # more of the same
)
async def test_a_chunk_passes_few_generators(
    source: str, arrives: bool, checkpoint: Callable[..., Path]
) -> None:
    """From the engine to the bytes of a file, which the response sends."""
    if source == "late":
        source = str(checkpoint("tiny", "custom_voice"))
    model = await SpeechModel.load(ModelSettings(source=source, device="cpu"))
    speech, workers = Speech({model.name: model}, SpeechSettings()), Workers("encoders")
    before = generators()
    if arrives:
        synthesis = speech.open(SpeechRequest("", seed=0))
        synthesis.push("Hello there, this goes on.")
        synthesis.finish()
        events = synthesis.events()
    else:
        events = speech.stream(SpeechRequest("Hello there, this goes on.", seed=0))
    async with aclosing(FileEncoding(AudioFormat.PCM, 24_000, workers).pieces(events)) as pieces:
        await anext(pieces)
        opened = generators()
        for name in before:
            opened.remove(name)
        beside = ("SegmentStream._pieces", "ModelPool.held")  # no chunk passes them
        chain = [name for name in opened if name not in beside]
        assert len(chain) <= MAX_GENERATORS, chain
    speech.close()
    workers.close()
    await model.close()
