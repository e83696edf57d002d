"""Prepared voices: what is saved is loaded, nobody changes it, and damaged files say so."""

from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.errors import InvalidRequestError

VOICE = PreparedVoice(
    name="Ann",
    family="toy",
    ref_text="Hello.",
    speaker_embedding=np.arange(4, dtype=np.float32),
    ref_codes=np.arange(6).reshape(3, 2),
)
DESCRIPTION = '{"version": 1, "name": "a", "family": "toy", "ref_text": null}'
FLOATS = st.floats(-10, 10, width=32)
CODES = st.integers(0, 2**63 - 1)
EMBEDDINGS = arrays.arrays(np.float32, st.integers(1, 9), elements=FLOATS)
CODE_TABLES = arrays.arrays(np.int64, arrays.array_shapes(min_dims=2, max_dims=2), elements=CODES)
VOICES = st.builds(
    lambda pair, **texts: PreparedVoice(speaker_embedding=pair[0], ref_codes=pair[1], **texts),
    pair=st.tuples(EMBEDDINGS, CODE_TABLES | st.none()) | st.tuples(st.none(), CODE_TABLES),
    name=st.text(min_size=1),
    family=st.text(min_size=1),
    ref_text=st.none() | st.text(),
)


def same(one: PreparedVoice, other: PreparedVoice) -> bool:
    return (
        (one.name, one.family, one.ref_text) == (other.name, other.family, other.ref_text)
        and np.array_equal(one.speaker_embedding, other.speaker_embedding)  # type: ignore[arg-type]
        and np.array_equal(one.ref_codes, other.ref_codes)  # type: ignore[arg-type]
    )


@given(voice=VOICES)
@settings(deadline=None, derandomize=True)
def test_what_is_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, voice: PreparedVoice
) -> None:
    path = tmp_path_factory.mktemp("voices") / "voice.safetensors"
    VOICE.save(path)
    voice.save(path)
    assert list(path.parent.iterdir()) == [path]  # nothing unfinished is left
    loaded = PreparedVoice.load(path)
    assert same(loaded, voice)
    assert loaded.content_hash == voice.content_hash
    assert not same(loaded, VOICE)


def test_a_voice_cannot_be_changed() -> None:
    embedding = np.zeros(4, np.float32)
    voice = PreparedVoice(name="a", family="toy", speaker_embedding=embedding)
    content_hash = voice.content_hash
    embedding[0] = 1
    assert voice.speaker_embedding is not None
    assert voice.speaker_embedding[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        voice.speaker_embedding[0] = 1
    with pytest.raises(FrozenInstanceError):
        voice.name = "b"  # type: ignore[misc]
    assert voice.content_hash == content_hash


def test_features_are_kept_and_can_be_heard(tmp_path: Path) -> None:
    features = np.arange(8, dtype=np.float32).reshape(4, 2)
    voice = replace(VOICE, ref_features=features)
    voice.save(tmp_path / "voice.safetensors")
    loaded = PreparedVoice.load(tmp_path / "voice.safetensors")
    assert loaded.ref_features is not None
    np.testing.assert_array_equal(loaded.ref_features, features)
    assert loaded.content_hash == voice.content_hash != VOICE.content_hash
    assert replace(VOICE, ref_features=features + 1).content_hash != voice.content_hash
    with pytest.raises(InvalidRequestError, match="'ref_features' has values that are not finite"):
        replace(VOICE, ref_features=features * np.float32(np.nan))


def test_the_hash_tells_all_that_can_be_heard() -> None:
    codes = np.arange(6)
    changed: list[dict[str, Any]] = [
        {"family": "other"},
        {"family": "toyH", "ref_text": "ello."},
        {"ref_text": None},
        {"ref_text": ""},
        {"ref_text": "Hello"},
        {"speaker_embedding": None},
        {"speaker_embedding": np.array([0, 1, 2, 4], np.float32)},
        {"ref_codes": None},
        {"ref_codes": codes.reshape(2, 3)},
        {"ref_codes": codes.reshape(3, 2)[::-1]},
    ]
    hashes = {replace(VOICE, **change).content_hash for change in changed}
    assert len(hashes | {VOICE.content_hash}) == len(changed) + 1
    assert replace(VOICE, name="Bob").content_hash == VOICE.content_hash
    # It outlives processes and machines.
    assert VOICE.content_hash == "804f27f395bdc5c8681d1b94c8d648780500eb4cda1a009cd5d1e27ece2dd68c"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name and a family"),
        ({"name": "\ud800"}, "Unicode"),
        ({"ref_text": "\ud800"}, "Unicode"),
        ({"speaker_embedding": None, "ref_codes": None}, "embedding, codes or features"),
        ({"speaker_embedding": np.zeros((1, 4), np.float32)}, r"'speaker_embedding'.*\[1, 4\]"),
        ({"speaker_embedding": np.zeros(0, np.float32)}, "none empty"),
        ({"speaker_embedding": np.zeros(4, np.float64)}, "of float64"),
        ({"speaker_embedding": np.array([1, np.nan], np.float32)}, "not finite"),
        ({"ref_codes": np.zeros(4, np.int64)}, "'ref_codes' must have 2 dimension"),
        ({"ref_codes": np.zeros((2, 0), np.int64)}, "none empty"),
        ({"ref_codes": np.zeros((2, 2), np.int32)}, "of int32"),
        ({"ref_codes": np.array([[0, -1]])}, "negative"),
    ],
)
def test_wrong_voices_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"Invalid voice: .*{message}"):
        replace(VOICE, **change)


EMBEDDING = {"speaker_embedding": np.zeros(4, np.float32)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read"),
        (b"hello" * 100, "cannot be read"),
        (safetensors.numpy.save(EMBEDDING), "not that of a voice"),
        (safetensors.numpy.save(EMBEDDING, {"format": "pt"}), "not that of a voice"),
        (safetensors.numpy.save(EMBEDDING, {"antiphon_voice": "{"}), "its description"),
        (
            safetensors.numpy.save(EMBEDDING, {"antiphon_voice": DESCRIPTION.replace("1", "2")}),
            "later version",
        ),
        (
            safetensors.numpy.save({"x": np.zeros(1)}, {"antiphon_voice": DESCRIPTION}),
            "unknown arrays: x",
        ),
        (
            safetensors.numpy.save({}, {"antiphon_voice": DESCRIPTION}),
            "embedding, codes or features",
        ),
        (
            safetensors.numpy.save(
                {"speaker_embedding": np.zeros(4, np.float16)}, {"antiphon_voice": DESCRIPTION}
            ),
            "of float16",
        ),
    ],
)
def test_files_that_are_no_voices(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "ann.safetensors"
    path.write_bytes(content)
    with pytest.raises(InvalidRequestError, match=rf"in ann\.safetensors: .*{message}"):
        PreparedVoice.load(path)


def test_files_that_are_no_files(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(InvalidRequestError, match="cannot be read"):
            PreparedVoice.load(path)
    with pytest.raises(OSError, match="nothing"):
        VOICE.save(tmp_path / "nothing" / "voice.safetensors")


@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
@settings(deadline=None, derandomize=True)
def test_damaged_files_are_refused_or_whole(
    tmp_path_factory: pytest.TempPathFactory, place: int, damage: bytes
) -> None:
    path = tmp_path_factory.mktemp("voices") / "voice.safetensors"
    VOICE.save(path)
    content = bytearray(path.read_bytes())
    place %= len(content)
    content[place : place + len(damage)] = damage
    path.write_bytes(content)
    try:
        voice = PreparedVoice.load(path)
    except InvalidRequestError:
        return
    assert voice.speaker_embedding is not None or voice.ref_codes is not None
