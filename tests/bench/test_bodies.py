"""A body is read the same however it is cut: samples, first sound, tokens."""

import base64
import json
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from antiphon.audio.wav import wav_header
from antiphon_bench.bodies import SILENCE, Body
from antiphon_bench.body_kinds import open_body

SAMPLES = st.lists(st.sampled_from([0, SILENCE, -SILENCE, SILENCE + 1, -32768, 32767]), max_size=40)
CUTS = st.lists(st.integers(0, 400))


def fed(body: Body, data: bytes, cuts: list[int]) -> Body:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, end in pairwise(places):
        body.feed(data[start:end])
    return body


def first_sound(samples: list[int]) -> int | None:
    return next((at for at, each in enumerate(samples) if abs(each) > SILENCE), None)


@given(SAMPLES, CUTS)
def test_pcm(samples: list[int], cuts: list[int]) -> None:
    body = fed(open_body("pcm", "audio/pcm"), np.array(samples, "<i2").tobytes(), cuts)
    assert body.num_samples == len(samples)
    assert body.first_sound_sample == first_sound(samples)
    assert body.num_tokens is None


@given(SAMPLES, CUTS, st.sampled_from(["pcm", "wav"]))
def test_a_moment_of_two_channels_is_one_sample(
    samples: list[int], cuts: list[int], response_format: str
) -> None:
    frames = np.stack([np.zeros(len(samples)), samples], axis=1).astype("<i2")
    head = wav_header(24_000, None, channels=2) if response_format == "wav" else b""
    body = fed(
        open_body(response_format, f"audio/{response_format}", channels=2),
        head + frames.tobytes(),
        cuts,
    )
    assert body.num_samples == len(samples)
    assert body.first_sound_sample == first_sound(samples)


@given(SAMPLES, CUTS)
def test_wav(samples: list[int], cuts: list[int]) -> None:
    data = wav_header(24_000, None) + np.array(samples, "<i2").tobytes()
    body = fed(open_body("wav", "audio/wav"), data, cuts)
    assert body.num_samples == len(samples)
    assert body.first_sound_sample == first_sound(samples)


@given(SAMPLES, SAMPLES, CUTS)
def test_events(first: list[int], second: list[int], cuts: list[int]) -> None:
    pieces = [base64.b64encode(np.array(each, "<i2").tobytes()) for each in (first, second)]
    lines = [{"type": "speech.audio.delta", "audio": piece.decode()} for piece in pieces]
    done = {"type": "speech.audio.done", "usage": {"output_tokens": 7}}
    data = "".join(f"event: x\ndata: {json.dumps(each)}\n\n" for each in [*lines, done]).encode()
    body = fed(open_body("pcm", "text/event-stream; charset=utf-8"), data, cuts)
    assert body.num_samples == len(first) + len(second)
    assert body.first_sound_sample == first_sound(first + second)
    assert body.num_tokens == 7
