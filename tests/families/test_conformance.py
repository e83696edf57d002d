"""What every family owes its users, on each: exact, repeatable, cleanly cancelled.

Wrong requests to a name share one model. Other tests load their own: one that has learned on a busy
machine how slow that is refuses listeners.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from antiphon.config import ModelSettings, SpeechSettings
from antiphon.contracts.prompt import LateText, Piece
from antiphon.contracts.types import AudioChunk, Ended, Samples, Sampling, SpeechRequest
from antiphon.errors import InvalidRequestError
from antiphon.families.registry import FAMILIES, families
from antiphon.offline import Audio, collect
from antiphon.pipeline.speech.model import SPEECH, SpeechModel
from antiphon.pipeline.speech.service import Speech
from antiphon.stages.base import StageRequest
from tests.families.whole_checkpoints import maker_of

T = TypeVar("T")
SPEAKING = [family for family in families() if SPEECH in family.tasks]
LAYOUTS: dict[str, Callable[[Path], None]] = {
    f"{family.name}-{layout}": make
    for family in SPEAKING
    if (Path(__file__).parent / family.name / "layouts.py").exists()
    for layout, make in import_module(f"tests.families.{family.name}.layouts").LAYOUTS.items()
}
"""Makers of checkpoints in layouts that their families' own makers do not write."""
NAMES = [*(family.name for family in SPEAKING), *LAYOUTS]
READY = [family.name for family in SPEAKING if not family.needs_checkpoint]
IN_STAGES = [family.name for family in SPEAKING if len(family.tasks[SPEECH].pipeline) > 1]
SLOW = pytest.mark.slow  # neural networks, many times over; their own tests have it in small


def slow_unless_ready(names: Sequence[str]) -> list[Any]:
    return [name if name in READY else pytest.param(name, marks=SLOW) for name in names]


ALIKE = ("cosyvoice3", "fish_speech", "mimo_audio", "voxcpm2")
"""Families whose stages and engines are those of another one, which stands for them."""
FEW = [pytest.param(name, marks=SLOW) if name in ALIKE else name for name in NAMES]

TEXT = "Hello there. How are you?"
MAX_FRAMES = 24
"""Random weights seldom say that they are done; the others are done before."""

made: dict[str, Path] = {}


@pytest.fixture(scope="session", autouse=True)
def _random_checkpoints(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Make a small checkpoint of random weights for every family that needs one."""
    for family in SPEAKING:
        if family.needs_checkpoint:
            made[family.name] = tmp_path_factory.mktemp(family.name)
            maker_of(family.name)(made[family.name], size="tiny", task="custom_voice")
    for name, make in LAYOUTS.items():
        made[name] = tmp_path_factory.mktemp(name)
        make(made[name])


@asynccontextmanager
async def speaking(name: str, *, is_colocated: bool = True) -> AsyncGenerator[Speech, None]:
    source = str(made[name]) if name in made else name
    settings = ModelSettings(
        source=source,
        device="cpu",
        decoder_device=None if is_colocated else "cpu",
        max_slots=8,
        trust_remote_code=True,  # ours: written by the makers of checkpoints
    )
    model = await SpeechModel.load(settings)
    speech = Speech({model.name: model}, SpeechSettings())
    try:
        yield speech
        assert model.fabric.num_open == 0
    finally:
        speech.close()
        await model.close()


@pytest.fixture(scope="module")
async def shared(request: pytest.FixtureRequest) -> AsyncGenerator[Speech, None]:
    async with speaking(request.param) as speech:
        yield speech


def ask(text: str = TEXT, seed: int = 1, **more: Any) -> SpeechRequest:
    return SpeechRequest(text, seed=seed, **{"sampling": Sampling(max_frames=MAX_FRAMES), **more})


async def say(speech: Speech, text: str = TEXT, seed: int = 1, **more: Any) -> Audio:
    return await collect(speech.stream(ask(text, seed, **more)))


def assert_same(one: Samples, other: Samples) -> None:
    """Assert equality to the last bit, though chunks are as long as the listeners' clocks want."""
    np.testing.assert_array_equal(one, other)


async def say_late(model: SpeechModel, parts: Iterable[str]) -> Samples:
    """Speak a text that arrives in parts, each when the one before has had its turn."""
    assert isinstance(model.prompter, LateText)
    sampling = replace(model.task.sampling, max_frames=MAX_FRAMES)
    request = replace(ask(""), sampling=sampling)
    prompt, feed = model.prompter.open(request, model.capabilities.voices[0], 1)

    async def pieces() -> AsyncGenerator[Piece, None]:
        for part in parts:
            if (piece := feed.push(part)) is not None:
                yield piece
            await asyncio.sleep(0)
        yield feed.close()

    chunks = []
    async with aclosing(model.open(StageRequest("late", prompt), pieces())) as items:
        async for item in items:
            if isinstance(item, AudioChunk):
                chunks.append(item.samples)
    return np.concatenate(chunks)


async def frames_of(model: SpeechModel, sampling: Sampling, made: Sequence[Any] = ()) -> list[Any]:
    """Return the frames of a stream after those ``made``, which its audio brings."""
    request = ask(sampling=sampling.with_defaults(model.task.sampling))
    prompt = model.prompter.build(request, model.capabilities.voices[0], 1)
    stream = StageRequest("one", prompt, resume_frames=tuple(made), returns_frames=True)
    async with aclosing(model.open(stream)) as items:
        chunks = [item.frames async for item in items if isinstance(item, AudioChunk)]
    return [frame for frames in chunks for frame in frames]


def test_every_registry_line_names_its_own_family() -> None:
    assert [family.name for family in families()] == list(FAMILIES)


@pytest.mark.parametrize("shared", NAMES, indirect=True)
async def test_a_stream_is_chunks_then_one_end(shared: Speech) -> None:
    events = [event async for event in shared.stream(ask())]
    *chunks, ended = events
    assert chunks
    assert all(isinstance(chunk, AudioChunk) for chunk in chunks)
    assert isinstance(ended, Ended)
    assert ended.reason in ("stop", "length")
    assert ended.usage.input_tokens > 0
    assert ended.usage.output_tokens > 0
    native_hz = shared.model(None).capabilities.sample_rate_hz
    for chunk in chunks:
        assert isinstance(chunk, AudioChunk)
        assert chunk.samples.dtype == np.float32
        assert chunk.samples.ndim == 1
        assert np.isfinite(chunk.samples).all()
        assert chunk.sample_rate_hz == native_hz


@pytest.mark.parametrize("name", FEW)
async def test_seed_repeats_and_another_seed_differs(name: str) -> None:
    async with speaking(name) as speech:
        first, again, other = [await say(speech, seed=seed) for seed in (1, 1, 2)]
        assert_same(first.samples, again.samples)
        assert not np.array_equal(first.samples, other.samples)


@pytest.mark.parametrize("name", slow_unless_ready(NAMES))
async def test_alone_equals_in_a_crowd(name: str) -> None:
    texts = [f"Sentence {n} is here, and then it ends." for n in range(6)]
    async with speaking(name) as speech:
        crowd = await asyncio.gather(*(say(speech, text, seed=n) for n, text in enumerate(texts)))
        for n, (text, together) in enumerate(zip(texts, crowd, strict=True)):
            alone = await say(speech, text, seed=n)
            assert_same(alone.samples, together.samples)


@pytest.mark.parametrize("name", NAMES)
async def test_a_listener_and_a_whole_file_get_the_same(name: str) -> None:
    async with speaking(name) as speech:
        live, whole = await asyncio.gather(say(speech), say(speech, is_live=False))
        assert_same(live.samples, whole.samples)
        assert live.usage == whole.usage


@pytest.mark.parametrize("name", FEW)
async def test_speech_whose_end_is_ignored_has_as_many_frames_as_its_limit(name: str) -> None:
    least = MAX_FRAMES + 3 if name in READY else 7  # networks have tests of weights that end soon
    put_off = Sampling(max_frames=least + 5, min_frames=least)
    endless = Sampling(max_frames=2 * least + 6, ignore_eos=True)
    async with speaking(name) as speech:
        model = speech.model(None)
        if not model.capabilities.draws_end:
            for sampling, param in ((endless, "ignore_eos"), (put_off, "min_tokens")):
                with pytest.raises(InvalidRequestError) as caught:
                    await say(speech, sampling=sampling)
                assert caught.value.param == param
            return
        crowd = await asyncio.gather(*(say(speech, seed=n, sampling=endless) for n in range(2)))
        assert {audio.finish_reason for audio in crowd} == {"length"}
        assert {audio.usage.output_tokens for audio in crowd} == {endless.max_frames}
        alone = await say(speech, seed=1, is_live=False, sampling=endless)
        assert_same(alone.samples, crowd[1].samples)
        assert (await say(speech, sampling=put_off)).usage.output_tokens >= least
        whole = await frames_of(model, endless)
        rest = await frames_of(model, endless, whole[:least])
        assert len(whole) == least + len(rest) == endless.max_frames
        np.testing.assert_array_equal(np.stack(rest), np.stack(whole[least:]))


@pytest.mark.parametrize("name", slow_unless_ready(IN_STAGES))
async def test_stages_together_equal_stages_apart(name: str) -> None:
    found = []
    for is_colocated in (True, False):
        async with speaking(name, is_colocated=is_colocated) as speech:
            found.append(await asyncio.gather(*(say(speech, seed=seed) for seed in range(4))))
    for one, other in zip(*found, strict=True):
        assert_same(one.samples, other.samples)
        assert (one.usage, one.finish_reason) == (other.usage, other.finish_reason)


@pytest.mark.parametrize("is_colocated", [True, False], ids=["together", "apart"])
@pytest.mark.parametrize("name", IN_STAGES)
async def test_late_text_is_spoken_alike_however_it_arrives(name: str, is_colocated: bool) -> None:
    async with speaking(name, is_colocated=is_colocated) as speech:
        model = speech.model(None)
        if not isinstance(model.prompter, LateText):
            assert not model.capabilities.late_text
            pytest.skip("the model reads its text before it speaks")
        at_once, in_words, in_letters = [
            await say_late(model, parts) for parts in ([TEXT], re.split("( )", TEXT), [*TEXT])
        ]
        assert len(at_once) > 0
        assert_same(at_once, in_words)
        assert_same(at_once, in_letters)
        assert model.fabric.num_open == 0


@pytest.mark.parametrize(
    "is_colocated",
    # Slow: all models once more, their stages with engines of their own.
    [True, pytest.param(False, marks=SLOW)],
    ids=["together", "apart"],
)
@pytest.mark.parametrize("name", FEW)
async def test_leaving_early_frees_everything(name: str, is_colocated: bool) -> None:
    async with speaking(name, is_colocated=is_colocated) as speech:
        for _ in range(3):
            async with aclosing(speech.stream(ask(TEXT * 20))) as events:
                assert isinstance(await anext(events), AudioChunk)
            assert speech.model(None).fabric.num_open == 0
        task = asyncio.create_task(say(speech, TEXT * 50))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])
        assert speech.model(None).fabric.num_open == 0
        assert (await say(speech)).duration_s > 0.1


@pytest.mark.parametrize("name", READY)
async def test_long_text_is_spoken_to_its_end(name: str) -> None:
    async with speaking(name) as speech:
        limit = speech.model(None).capabilities.max_segment_characters
        many = "A short line. " * (2 * limit // 14 + 2)
        short, long = [
            await collect(speech.stream(SpeechRequest(text, seed=1)))
            for text in ("A short line.", many)
        ]
        assert short.finish_reason == long.finish_reason == "stop"
        num_lines = many.count("line")
        assert long.duration_s == pytest.approx(short.duration_s * num_lines, rel=0.25)


@pytest.mark.slow  # each voice in each language
@pytest.mark.parametrize("name", NAMES)
async def test_every_declared_voice_and_language_speaks(name: str) -> None:
    async with speaking(name) as speech:
        capabilities = speech.model(None).capabilities
        for voice in capabilities.voices:
            assert (await say(speech, voice=voice.id.upper())).duration_s > 0.1
        for language in capabilities.languages:
            assert (await say(speech, language=language.title())).duration_s > 0.1
        default = await say(speech)
        named = await say(speech, voice=capabilities.voices[0].id)
        assert_same(default.samples, named.samples)


@pytest.mark.parametrize("shared", NAMES, indirect=True)
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": " \n"}, "input"),
        ({"input": "a" * 100_001}, "input"),
        ({"voice": "nobody"}, "voice"),
        ({"model": "nothing"}, "model"),
        ({"language": "klingon"}, "language"),
        ({"speed": 5.0}, "speed"),
        ({"speed": float("nan")}, "speed"),
        ({"sample_rate_hz": 100}, "sample_rate"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_wrong_requests_name_their_field(
    shared: Speech, fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        await collect(shared.stream(replace(ask(), **fields)))
    assert caught.value.param == param
    assert shared.model(None).fabric.num_open == 0


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize(
    ("speed", "rate_hz"),
    [
        (1.5, 16000),
        pytest.param(0.5, 24000, marks=pytest.mark.slow),  # more of the same
        pytest.param(1.0, 44100, marks=pytest.mark.slow),
    ],
)
async def test_speed_and_rate_change_the_length_as_told(
    name: str, speed: float, rate_hz: int
) -> None:
    async with speaking(name) as speech:
        plain = await say(speech)
        changed = await say(speech, speed=speed, sample_rate_hz=rate_hz)
        assert changed.sample_rate_hz == rate_hz
        assert changed.duration_s == pytest.approx(plain.duration_s / speed, rel=0.02, abs=0.05)
        assert changed.usage == plain.usage
