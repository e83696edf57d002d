"""Tasks in Python: one text or many, whole or streamed, by every kind of voice, from any loop."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, aclosing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon import Antiphon, Audio, AudioChunk, PreparedVoice, Sampling, SpeechRequest
from antiphon.audio.recording import read_recording
from antiphon.contracts.types import Samples
from antiphon.errors import InvalidRequestError
from tests.recordings import RECORDING, wav

TEXT, OTHER_TEXT = "Hello there.", "And something else."
WORDS = "I said this."
LONG_TEXT = "A long text. " * 200
SHORT: dict[str, Any] = {"max_new_tokens": 6, "seed": 3}
EMBEDDING = [n / 64 for n in range(64)]
ROUNDING = 2e-6  # other chunks and other batches may be added up in another order


def num_open(antiphon: Antiphon) -> int:
    return antiphon._model.fabric.num_open


def joined(chunks: Generator[AudioChunk, None, None]) -> Samples:
    return np.concatenate([chunk.samples for chunk in chunks])


def assert_same(one: Audio, other: Audio) -> None:
    np.testing.assert_array_equal(one.samples, other.samples)
    assert one.usage == other.usage


@pytest.fixture(scope="module")
def load(checkpoint: Callable[..., Path]) -> Generator[Callable[[str], Antiphon], None, None]:
    with ExitStack() as stack:

        @cache
        def get(task: str) -> Antiphon:
            source = str(checkpoint("tiny", task))
            return stack.enter_context(Antiphon.load(source, device="cpu", max_slots=4))

        yield get


@pytest.fixture(scope="module")
def base(load: Callable[[str], Antiphon]) -> Antiphon:
    return load("base")


@pytest.fixture(scope="module")
def custom(load: Callable[[str], Antiphon]) -> Antiphon:
    return load("custom_voice")


@pytest.fixture(scope="module")
def design(load: Callable[[str], Antiphon]) -> Antiphon:
    return load("voice_design")


@pytest.fixture(scope="module")
def voice(base: Antiphon) -> PreparedVoice:
    return base.create_voice(RECORDING, WORDS, "Ann")


def test_built_in_voices(custom: Antiphon) -> None:
    names = [each.id for each in custom.voices[:2]]
    alone = [custom.generate_custom_voice(TEXT, name, "english", **SHORT) for name in names]
    assert not np.array_equal(alone[0].samples, alone[1].samples)
    sampling = Sampling(max_frames=5)
    request = SpeechRequest(TEXT, voice=names[0], language="english", seed=3, sampling=sampling)
    assert_same(
        custom.generate_custom_voice(TEXT, language="English", **SHORT), custom.speech(request)
    )
    told = custom.generate_custom_voice(TEXT, names[0], "auto", "Whisper.", **SHORT)
    assert not np.array_equal(told.samples, alone[0].samples)
    batch = custom.generate_custom_voice([TEXT, TEXT], names, "english", **SHORT)
    for one, other in zip(alone, batch, strict=True):
        np.testing.assert_allclose(one.samples, other.samples, rtol=0, atol=ROUNDING)


def test_designed_voices(design: Antiphon) -> None:
    whole = design.generate_voice_design(TEXT, "A calm voice.", "english", **SHORT)
    chunks = design.generate_voice_design(TEXT, "A calm voice.", "english", stream=True, **SHORT)
    np.testing.assert_array_equal(joined(chunks), whole.samples)
    batch = design.generate_voice_design(
        [TEXT] * 2, ["A calm voice.", "Angry."], "english", **SHORT
    )
    np.testing.assert_allclose(batch[0].samples, whole.samples, rtol=0, atol=ROUNDING)
    assert not np.array_equal(batch[0].samples, batch[1].samples)


def test_cloned_voices(base: Antiphon, voice: PreparedVoice) -> None:
    whole = base.generate_voice_clone(TEXT, RECORDING, WORDS, **SHORT)
    assert_same(base.generate_voice_clone(TEXT, voice=voice, **SHORT), whole)
    assert_same(base.generate_voice_clone(TEXT, voice=voice, ref_text=WORDS, **SHORT), whole)
    np.testing.assert_array_equal(
        joined(base.generate_voice_clone(TEXT, voice=voice, stream=True, **SHORT)), whole.samples
    )
    vector = base.generate_voice_clone(TEXT, RECORDING, x_vector_only_mode=True, **SHORT)
    assert_same(
        base.generate_voice_clone(TEXT, voice=base.create_voice(RECORDING), **SHORT), vector
    )
    numbers = np.asarray(voice.speaker_embedding).tolist()
    assert_same(base.generate_voice_clone(TEXT, speaker_embedding=numbers, **SHORT), vector)
    assert not np.array_equal(vector.samples, whole.samples)


def test_many_clones_at_once_are_each_as_alone(base: Antiphon, voice: PreparedVoice) -> None:
    other = wav(seed=1)
    many = base.generate_voice_clone(
        [TEXT, OTHER_TEXT, TEXT, TEXT, TEXT, TEXT],
        [RECORDING, RECORDING, other, RECORDING, RECORDING, RECORDING],
        [WORDS, WORDS, WORDS, "Other words.", None, WORDS],
        [False, False, False, False, True, False],
        seed=[3, 3, 3, 3, 3, 4],
        max_new_tokens=6,
    )
    alone = [
        base.generate_voice_clone(TEXT, voice=voice, **SHORT),
        base.generate_voice_clone(OTHER_TEXT, voice=voice, **SHORT),
        base.generate_voice_clone(TEXT, other, WORDS, **SHORT),
        base.generate_voice_clone(TEXT, RECORDING, "Other words.", **SHORT),
        base.generate_voice_clone(TEXT, RECORDING, x_vector_only_mode=True, **SHORT),
        base.generate_voice_clone(TEXT, voice=voice, max_new_tokens=6, seed=4),
    ]
    for one, in_company in zip(alone, many, strict=True):
        np.testing.assert_allclose(one.samples, in_company.samples, rtol=0, atol=ROUNDING)
    assert len({each.samples.tobytes() for each in many}) == len(many)


def test_a_voice_that_was_saved_speaks_the_same(
    base: Antiphon, voice: PreparedVoice, tmp_path: Path
) -> None:
    voice.save(tmp_path / "ann.safetensors")
    loaded = PreparedVoice.load(tmp_path / "ann.safetensors")
    assert (loaded.name, loaded.ref_text) == ("Ann", WORDS)
    assert_same(
        base.generate_voice_clone(TEXT, voice=loaded, **SHORT),
        base.generate_voice_clone(TEXT, voice=voice, **SHORT),
    )


def test_recordings_come_in_many_forms(
    base: Antiphon, voice: PreparedVoice, tmp_path: Path
) -> None:
    path = tmp_path / "voice.wav"
    path.write_bytes(RECORDING)
    samples = read_recording(RECORDING, sample_rate_hz=24_000, max_duration_s=30)
    for recording in (path, str(path), (samples, 24_000)):
        assert base.create_voice(recording, WORDS).content_hash == voice.content_hash
    assert asyncio.run(base.acreate_voice(path, WORDS)).content_hash == voice.content_hash


def test_temperature_zero_is_greedy(base: Antiphon) -> None:
    greedy: dict[str, Any] = {"speaker_embedding": EMBEDDING, "temperature": 0, "max_new_tokens": 6}
    one, other = (base.generate_voice_clone(TEXT, seed=seed, **greedy) for seed in (1, 2))
    assert_same(one, other)


@pytest.mark.parametrize(
    ("task", "call", "param", "words"),
    [
        ("base", lambda m: m.generate_custom_voice(TEXT), "task_type", "Base checkpoint"),
        ("base", lambda m: m.generate_voice_design(TEXT, "Old."), "task_type", "Base checkpoint"),
        ("custom_voice", lambda m: m.generate_voice_clone(TEXT, RECORDING), "task_type", "Custom"),
        ("custom_voice", lambda m: m.create_voice(RECORDING), "ref_audio", "only valid for Base"),
        ("custom_voice", lambda m: m.generate_custom_voice(TEXT, "nobody"), "voice", "nobody"),
        ("custom_voice", lambda m: m.generate_custom_voice(TEXT, pitch=3), "pitch", "This model"),
        ("custom_voice", lambda m: m.generate_custom_voice([TEXT], ["a", "b"]), "voice", "of 2"),
        ("custom_voice", lambda m: m.generate_custom_voice(TEXT, ["a"]), "voice", "of 1"),
        ("custom_voice", lambda m: m.generate_custom_voice([TEXT], stream=True), "stream", "one"),
        ("voice_design", lambda m: m.generate_voice_design(TEXT, " "), "instructions", "requires"),
        ("base", lambda m: m.generate_voice_clone(TEXT), "ref_audio", "requires 'ref_audio'"),
        ("base", lambda m: m.generate_voice_clone(TEXT, RECORDING), "ref_text", "non-empty"),
        ("base", lambda m: m.create_voice(wav(0.5)), "ref_audio", "too short"),
        ("base", lambda m: m.create_voice("nowhere.wav"), "ref_audio", "Could not read nowhere"),
        (
            "base",
            lambda m: m.generate_voice_clone(TEXT, RECORDING, voice=m.create_voice(RECORDING)),
            "ref_audio",
            "mutually exclusive",
        ),
    ],
)
def test_wrong_calls_name_their_field(
    load: Callable[[str], Antiphon],
    task: str,
    call: Callable[[Antiphon], object],
    param: str,
    words: str,
) -> None:
    antiphon = load(task)
    with pytest.raises(InvalidRequestError, match=words) as caught:
        call(antiphon)
    assert caught.value.param == param
    assert num_open(antiphon) == 0


def test_models_without_such_tasks() -> None:
    with Antiphon.load("toy") as toy:
        spoken = toy.generate_custom_voice([TEXT, OTHER_TEXT], "bass", seed=1)
        request = SpeechRequest(OTHER_TEXT, voice="bass", seed=1)
        np.testing.assert_array_equal(spoken[1].samples, toy.speech(request).samples)
        assert toy.generate_custom_voice([]) == []
        with pytest.raises(InvalidRequestError, match="This model knows: none"):
            toy.generate_voice_design(TEXT, "Old.")
        with pytest.raises(InvalidRequestError, match="This model knows: none"):
            toy.generate_voice_clone(TEXT, RECORDING, WORDS)
        with pytest.raises(InvalidRequestError, match="clones no voices"):
            toy.create_voice(RECORDING)


def test_one_failure_gives_all_up(custom: Antiphon) -> None:
    requests = [SpeechRequest(LONG_TEXT), SpeechRequest(" ")]
    with pytest.raises(InvalidRequestError, match="empty"):
        custom.speeches(requests)
    assert num_open(custom) == 0


def test_any_loop_and_any_thread_may_use_a_model(base: Antiphon, voice: PreparedVoice) -> None:
    sampling, options = Sampling(max_frames=30), {"ref_audio": voice}
    request = SpeechRequest(LONG_TEXT[:300], seed=5, sampling=sampling, options=options)
    alone = base.speech(request).samples

    async def streamed() -> Samples:
        return np.concatenate([chunk.samples async for chunk in base.astream(request)])

    async def main() -> list[Samples]:
        chunks, whole = await asyncio.gather(streamed(), base.aspeech(request))
        return [chunks, whole.samples]

    with ThreadPoolExecutor() as pool:
        others = [pool.submit(asyncio.run, main()) for _ in range(2)]
        heard = [joined(base.stream(request)), *(each for o in others for each in o.result())]
    assert len(heard) == 5
    for samples in heard:
        np.testing.assert_allclose(samples, alone, rtol=0, atol=ROUNDING)


def test_the_twins_for_asyncio_say_the_same(
    base: Antiphon, custom: Antiphon, design: Antiphon, voice: PreparedVoice
) -> None:
    async def clones() -> tuple[Audio, list[Audio]]:
        texts = [TEXT, OTHER_TEXT]
        return (
            await base.agenerate_voice_clone(TEXT, RECORDING, WORDS, **SHORT),
            await base.agenerate_voice_clone(texts, voice=voice, language=["en", "de"], **SHORT),
        )

    async def others() -> tuple[Audio, Audio, list[Audio], list[Audio]]:
        return (
            await custom.agenerate_custom_voice(TEXT, "vivian", **SHORT),
            await design.agenerate_voice_design(TEXT, "Old.", **SHORT),
            await custom.agenerate_custom_voice([TEXT], "vivian", **SHORT),
            await design.agenerate_voice_design([TEXT], ["Old."], **SHORT),
        )

    one, (first, second) = asyncio.run(clones())
    assert_same(one, base.generate_voice_clone(TEXT, voice=voice, **SHORT))
    for audio, text, language in ((first, TEXT, "en"), (second, OTHER_TEXT, "de")):
        alone = base.generate_voice_clone(text, voice=voice, language=language, **SHORT)
        np.testing.assert_allclose(audio.samples, alone.samples, rtol=0, atol=ROUNDING)
    vivian, old, vivians, olds = asyncio.run(others())
    assert_same(vivian, custom.generate_custom_voice(TEXT, "vivian", **SHORT))
    assert_same(old, design.generate_voice_design(TEXT, "Old.", **SHORT))
    assert_same(vivian, vivians[0])
    assert_same(old, olds[0])


def test_leaving_a_stream_frees_everything(base: Antiphon, voice: PreparedVoice) -> None:
    request = SpeechRequest(LONG_TEXT, options={"ref_audio": voice})

    async def leave_early() -> None:
        async with aclosing(base.astream(request)) as chunks:
            assert len((await anext(chunks)).samples)
        assert num_open(base) == 0

    for _ in base.stream(request):
        break
    assert num_open(base) == 0
    asyncio.run(leave_early())


async def listen(antiphon: Antiphon, request: SpeechRequest) -> None:
    async for _ in antiphon.astream(request):
        pass


@pytest.mark.parametrize(
    "work",
    [
        listen,
        lambda antiphon, request: antiphon.aspeech(request),
        lambda antiphon, request: antiphon.aspeeches([request] * 6),
    ],
    ids=["stream", "whole", "many"],
)
@pytest.mark.parametrize("num_polls", [1, 20])
def test_cancelling_frees_everything(
    base: Antiphon,
    voice: PreparedVoice,
    work: Callable[[Antiphon, SpeechRequest], Coroutine[Any, Any, object]],
    num_polls: int,
) -> None:
    request = SpeechRequest(LONG_TEXT, options={"ref_audio": voice})

    async def main() -> None:
        task = asyncio.create_task(work(base, request))
        for _ in range(num_polls):
            await asyncio.sleep(0.002)
            while not num_open(base):
                assert not task.done(), task.result()
                await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert num_open(base) == 0

    asyncio.run(main())
    spoken = base.generate_voice_clone(TEXT, voice=voice, **SHORT)
    assert spoken.usage.output_tokens == SHORT["max_new_tokens"] - 1
