"""Both networks speak sentence by sentence; word times and silences are where they belong."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import AudioChunk, Samples
from antiphon.errors import EngineError, ModelLoadError
from antiphon.families.kokoro.checkpoint import FRAME_SAMPLES, SAMPLE_RATE_HZ
from antiphon.families.kokoro.generator import PAUSES, KokoroGenerator, natural_span
from antiphon.text.base import ReadWord
from antiphon.text.phoneme_prompt import PhonemePrompt

SENTENCES = (tuple(range(43, 73)), (50, 16, 60, 4))
WORDS = ((ReadWord("One", 0, 0, 10), ReadWord("two.", 4, 11, 30)), (ReadWord("So?", 9, 0, 3),))


@pytest.fixture(scope="module", params=["official", "exported"])
def generator(request: pytest.FixtureRequest) -> KokoroGenerator:
    path: Path = request.getfixturevalue(request.param)
    return KokoroGenerator(LoadContext(path=path, device="cpu"))


def prompt(voice: str = "af_heart", seed: int = 1, **more: object) -> Prompt:
    told = {"sentences": SENTENCES, "words": WORDS, **more}
    return Prompt(data=PhonemePrompt(voice, **told), num_tokens=34, seed=seed)  # type: ignore[arg-type]


def speak(generator: KokoroGenerator, asked: Prompt) -> Samples:
    return np.concatenate([chunk.samples for chunk in generator.generate(asked)])


def test_chunks_are_whole_frames_of_at_most_a_second(generator: KokoroGenerator) -> None:
    chunks = list(generator.generate(prompt()))
    assert len(chunks) >= 3
    for chunk in chunks:
        assert chunk.sample_rate_hz == SAMPLE_RATE_HZ
        assert chunk.samples.dtype == np.float32
        assert len(chunk.samples) == chunk.num_frames * FRAME_SAMPLES
        assert chunk.duration_s <= 1
        assert np.isfinite(chunk.samples).all()


def test_words_come_with_their_sentence_in_order(generator: KokoroGenerator) -> None:
    chunks: list[AudioChunk] = list(generator.generate(prompt()))
    words = [word for chunk in chunks for word in chunk.words]
    assert [word.word for word in words] == ["One", "two.", "So?"]
    edges = [edge for word in words for edge in (word.start_s, word.end_s)]
    assert edges == sorted(edges)
    assert all(word.end_s > word.start_s for word in words)
    assert edges[-1] <= sum(chunk.duration_s for chunk in chunks)
    untold = list(generator.generate(prompt(words=())))
    assert not any(chunk.words for chunk in untold)


def test_sentences_do_not_change_each_other(generator: KokoroGenerator) -> None:
    alone = speak(generator, prompt(sentences=SENTENCES[:1], words=()))
    both = speak(generator, prompt())
    np.testing.assert_array_equal(both[: len(alone)], alone)


def test_an_early_leaver_changes_nothing(generator: KokoroGenerator) -> None:
    leaving = generator.generate(prompt(seed=5))
    next(leaving)
    leaving.close()
    np.testing.assert_array_equal(speak(generator, prompt()), speak(generator, prompt()))


def test_nothing_to_pronounce_is_a_short_silence(generator: KokoroGenerator) -> None:
    (chunk,) = generator.generate(prompt(sentences=(), words=()))
    assert chunk.duration_s == 0.1
    assert not chunk.samples.any()


class Loud:
    """A network that makes a tone, as loud as it is told."""

    def __init__(self, level: float) -> None:
        self.level = level

    def speak(
        self, ids: tuple[int, ...], style: NDArray[np.float32], seed: tuple[int, int]
    ) -> tuple[Samples, None]:
        tone = np.sin(np.arange(24_000, dtype=np.float32) / 9)
        return tone * np.float32(self.level), None


def test_what_is_too_loud_is_clipped(
    generator: KokoroGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {}
    for level in (1.0, 3.0):
        monkeypatch.setattr(generator, "_network", Loud(level))
        made[level] = speak(generator, prompt(words=()))
    np.testing.assert_array_equal(made[3.0], np.clip(3 * made[1.0], -1, 1))
    assert (np.abs(made[3.0]) == 1).mean() > 0.5
    monkeypatch.setattr(generator, "_network", Loud(float("nan")))
    with pytest.raises(EngineError, match="finite"):
        speak(generator, prompt(words=()))


def test_voices_and_mixes_sound_different(generator: KokoroGenerator) -> None:
    heard = [speak(generator, prompt(voice)) for voice in ("af_heart", "af_sky")]
    heard.append(speak(generator, prompt("af_heart+af_sky")))
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not np.array_equal(heard[one], heard[other])
    with pytest.raises(EngineError, match="nobody"):
        speak(generator, prompt("nobody"))


def test_the_export_has_exact_durations(exported: Path) -> None:
    generator = KokoroGenerator(LoadContext(path=exported, device="cpu"))
    chunks = list(generator.generate(prompt()))
    one, two, _ = [word for chunk in chunks for word in chunk.words]
    frame_s = FRAME_SAMPLES / SAMPLE_RATE_HZ
    # Two frames a phoneme; the silent padding before the first is kept as far as it is wanted.
    assert one.start_s == pytest.approx(min(2, PAUSES.lead_frames) * frame_s)
    assert one.end_s - one.start_s == pytest.approx(20 * frame_s)
    assert two.start_s - one.end_s == pytest.approx(2 * frame_s)
    generator.close()
    with pytest.raises(EngineError):
        speak(generator, prompt())


@pytest.mark.parametrize("lead", [0, 1, 30])
def test_silence_is_cut_to_what_is_natural(lead: int) -> None:
    samples = np.zeros(100 * FRAME_SAMPLES, np.float32)
    samples[lead * FRAME_SAMPLES : 50 * FRAME_SAMPLES] = 0.1
    assert natural_span(samples) == (max(0, lead - PAUSES.lead_frames), 50 + PAUSES.pause_frames)
    assert natural_span(np.zeros(700, np.float32)) == (0, 2)


def test_a_gpu_needs_the_original_weights(exported: Path) -> None:
    with pytest.raises(ModelLoadError, match="--device cpu"):
        KokoroGenerator(LoadContext(path=exported, device="cuda"))


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x0a\xff\xff"])
def test_a_damaged_export_is_told(exported: Path, tmp_path: Path, content: bytes) -> None:
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    (tmp_path / "onnx" / "model.onnx").write_bytes(content)
    with pytest.raises(ModelLoadError, match=r"model\.onnx"):
        KokoroGenerator(LoadContext(path=tmp_path, device="cpu"))


def test_each_sentence_has_noise_of_its_own(official: Path) -> None:
    generator = KokoroGenerator(LoadContext(path=official, device="cpu"))
    seeds: list[tuple[int, int]] = []

    class Silent:
        def speak(
            self, ids: tuple[int, ...], style: NDArray[np.float32], seed: tuple[int, int]
        ) -> tuple[Samples, None]:
            seeds.append(seed)
            return np.zeros(FRAME_SAMPLES, np.float32), None

    generator._network = Silent()
    speak(generator, prompt(seed=7, words=()))
    speak(generator, prompt(seed=-1, words=()))
    assert seeds == [(7, 0), (7, 1), (2**64 - 1, 0), (2**64 - 1, 1)]
