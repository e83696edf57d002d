"""Texts and recordings for a training: reproducible, held out, trimmed."""

import random
import re
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from antiphon.text.normalizer import Normalizer
from antiphon_training.codec import Codec
from antiphon_training.data import generate, import_recordings, shard_tasks
from antiphon_training.encode import encode_folder, encode_shard
from antiphon_training.prose import prose_sentences
from antiphon_training.shards import UNKNOWN, Shard, shard_files
from antiphon_training.sizes import FRAME_SAMPLES, PRESETS, SAMPLE_RATE_HZ
from antiphon_training.speakers import Speaker, to_int16, trim
from antiphon_training.texts import (
    clock_words,
    grammar_sentences,
    number_words,
    ordinal_words,
    read_texts,
    write_texts,
    year_words,
)
from antiphon_training.words import num_word_errors


def test_texts_are_reproducible_distinct_and_held_out(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_texts(tmp_path / name, 500, seed=1)
    train, held_out = read_texts(tmp_path / "a")
    assert (train, held_out) == read_texts(tmp_path / "b")
    assert len(train) == 500
    assert len(held_out) == 200
    assert len({*train, *held_out}) == 700
    assert all(re.fullmatch(r"[A-Za-z' ,;:!?\".-]+", text) for text in train)


def test_prose_is_cut_into_plain_sentences(tmp_path: Path) -> None:
    prose = "It was a fine day.\nNobody came, not one; it rained.\n\nSee ``x``. In 1999 it ended."
    (tmp_path / "prose.txt").write_text(prose, encoding="utf-8")
    write_texts(tmp_path / "out", 50, seed=0, prose=tmp_path)
    train, held_out = read_texts(tmp_path / "out")
    texts = {*train, *held_out}
    assert {"It was a fine day.", "Nobody came, not one; it rained."} <= texts
    assert not any("`" in text or "1" in text for text in texts)


def test_prose_of_ebooks_and_of_a_dictionary(tmp_path: Path) -> None:
    chapter = (
        "<html><head><title>One</title></head><body><h2>One</h2>"
        "<p>“It’s late,” she said—and <i>left</i>. He\u2060—stayed.</p><p>Then it rained…</p>"
        "</body></html>"
    )
    verbs = '00004032 29 v 02 sigh 0 001 | heave a sigh; "she sighed sadly"; "a sigh of relief;"\n'
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "one.xhtml").write_text(chapter, encoding="utf-8")
    (tmp_path / "data.verb").write_text(verbs, encoding="utf-8")
    (tmp_path / "data.json").write_text('"Not a text at all."', encoding="utf-8")
    assert set(prose_sentences(tmp_path)) == {
        '"It\'s late," she said, and left.',
        "Then it rained...",
        "She sighed sadly.",
        "A sigh of relief.",
    }


def test_lists_of_words_are_not_held_out(tmp_path: Path) -> None:
    write_texts(tmp_path, 400, seed=0)
    train, held_out = read_texts(tmp_path)
    lists = [text.startswith(("The words are", "Please repeat:")) for text in (*train, *held_out)]
    assert any(lists[:400])
    assert not any(lists[400:])


def test_texts_of_a_word_or_two_are_learned(tmp_path: Path) -> None:
    write_texts(tmp_path, 400, seed=0)
    train, held_out = read_texts(tmp_path)
    short = [text for text in train if len(text.split()) < 3]
    assert len(short) > 5
    assert any(len(text.split()) == 1 for text in short)
    assert not any(len(text.split()) < 3 for text in held_out)


def test_sentences_of_the_grammar_have_no_slots_left() -> None:
    sentences = list(islice(grammar_sentences(random.Random(0)), 2000))
    assert not any(set("{}") & set(text) for text in sentences)
    assert all(re.search(r"[.!?]\"?$", text) for text in sentences)
    assert len(set(sentences)) > 1900


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "zero"), (21, "twenty one"), (305, "three hundred and five"), (1000, "one thousand")],
)
def test_numbers(number: int, words: str) -> None:
    assert number_words(number) == words


def test_dates_and_times() -> None:
    assert [ordinal_words(each) for each in (1, 12, 20, 31)] == [
        *("first", "twelfth", "twentieth", "thirty first"),
    ]
    assert [year_words(each) for each in (1900, 1905, 2005, 2024)] == [
        *("nineteen hundred", "nineteen oh five", "two thousand and five", "twenty twenty four"),
    ]
    assert [clock_words(each) for each in (0, 615, 1425, 485)] == [
        *("twelve o'clock", "quarter past ten", "quarter to twelve", "eight oh five"),
    ]


def test_shards_are_reproducible_and_speakers_take_turns(tmp_path: Path) -> None:
    texts = [f"This is the text of {name}." for name in ("Anna", "Ben", "Clara")] * 22
    for name in ("a", "b"):
        tasks = list(shard_tasks(tmp_path / name, texts, ["Held out."], ["heart", "deep"], 3))
        few = [*tasks[1:2], *tasks[3:]]  # held out by the deep voice, and the second shard
        assert generate(tmp_path / name, iter(few), num_workers=1, seconds=60, hours=1) > 0
    paths = shard_files(tmp_path / "a", "audio")
    assert [path.name for path in paths] == ["audio-00001-deep.npz"]
    first, second = (Shard.read(tmp_path / name / paths[0].name, "audio") for name in ("a", "b"))
    assert first.texts == second.texts == tuple(texts[64:])
    assert np.array_equal(first.rows, second.rows)


def test_a_deep_voice_is_as_fast(tmp_path: Path) -> None:
    text = "The weather is fine today."
    heart, deep = (Speaker(name).speak(text, 0) for name in ("heart", "deep"))
    assert 0.75 < len(deep.samples) / len(heart.samples) < 1.33
    assert set(deep.phonemes) == set(heart.phonemes)


def test_phonemes_lie_where_they_are_spoken() -> None:
    from hibari import Hibari

    text = "See, she sees the sea."
    spoken = Speaker("heart").speak(text, 0)
    voice = Hibari(threads=1)
    expected = voice.ids(voice.phonemize(text)[0])[1:-2]  # the last stop is trimmed
    changes = np.flatnonzero(np.diff(spoken.phonemes, prepend=0))
    assert [number for number in spoken.phonemes[changes] if number] == expected
    assert len(spoken.phonemes) == len(spoken.samples)
    level = np.abs(spoken.samples.astype(float))
    assert level[spoken.phonemes > 0].mean() > 4 * level[spoken.phonemes == 0].mean()


def test_trimming_leaves_little_silence() -> None:
    silence = np.zeros(SAMPLE_RATE_HZ, np.float32)
    tone = np.sin(np.arange(SAMPLE_RATE_HZ, dtype=np.float32))
    trimmed = trim(np.concatenate([silence, tone, silence]))
    around_ms = 1000 * (len(trimmed) - len(tone)) / SAMPLE_RATE_HZ
    assert 160 <= around_ms <= 180
    assert np.abs(trimmed[:1900]).max() == 0
    assert len(trim(silence)) == 0


def test_own_recordings_become_a_dataset_of_codes(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    source = tmp_path / "own"
    source.mkdir()
    for index in range(3):
        samples = np.sin(np.arange(16_000, dtype=np.float32) * (0.05 + 0.01 * index))
        soundfile.write(source / f"{index}.wav", samples, 16_000)
        (source / f"{index}.txt").write_text(f"Sentence {index}.\n", encoding="utf-8")
    import_recordings(source, tmp_path / "data", "me")
    (path,) = shard_files(tmp_path / "data", "audio")
    audio = Shard.read(path, "audio")
    assert sorted(audio.texts) == ["Sentence 0.", "Sentence 1.", "Sentence 2."]
    codec = Codec(PRESETS["tiny"]).eval()
    parts = [encode_folder(codec, tmp_path / "data", tmp_path, 60, part, 2) for part in range(2)]
    num_frames = sum(parts)
    codes = Shard.read(tmp_path / "codes-00000-me.npz", "codes")
    assert codes.rows.dtype == np.uint16
    assert codes.texts == audio.texts
    lengths = -(-np.diff(audio.offsets) // FRAME_SAMPLES)
    assert np.array_equal(np.diff(codes.offsets), lengths)
    assert num_frames == len(codes.rows) == lengths.sum()
    assert codes.phonemes is not None
    assert (codes.phonemes == UNKNOWN).all()


def test_codes_keep_the_phonemes_of_their_frames() -> None:
    half = FRAME_SAMPLES // 2
    parts = [np.zeros(5 * half, np.int16), np.zeros(2 * half, np.int16)]
    labels = [np.repeat(np.array(each, np.uint8), half) for each in ((1, 2, 3, 4, 0), (5, 6))]
    audio = Shard.of(parts, ["One.", "Two."], "me", labels)
    codes = encode_shard(Codec(PRESETS["tiny"]).eval(), audio)
    assert codes.phonemes is not None
    assert codes.phonemes.tolist() == [[1, 2], [3, 4], [0, 0], [5, 6]]


def test_recordings_without_texts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no recordings"):
        import_recordings(tmp_path, tmp_path / "data", "me")


def test_samples_keep_their_scale() -> None:
    samples = np.array([0.0, 0.5, 2.0, -2.0], np.float32)
    assert to_int16(samples).tolist() == [0, 16384, 32767, -32767]


def test_word_errors() -> None:
    assert num_word_errors(["a", "b", "c"], ["a", "c", "d"]) == 2


def test_what_a_model_was_taught_reaches_it_as_it_was() -> None:
    """Rules for models of words alone change what such a model does not know."""
    for text in islice(grammar_sentences(random.Random(7)), 500):
        assert Normalizer(words_only=True).push(text, is_last=True) == text
