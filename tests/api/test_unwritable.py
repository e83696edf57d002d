"""What JSON can hold and nothing can write: refused with a short message, whatever field has it."""

import json
from typing import Any

import httpx
import pytest

from antiphon import Antiphon, SpeechRequest
from antiphon.errors import InvalidRequestError
from tests.decoding import error_of
from tests.recordings import RECORDING

URL = "/v1/audio/speech"
HALF = r'"\ud800"'
HEADERS = {"Content-Type": "application/json"}
BODIES = {
    URL: '{"input": "x", %s}',
    f"{URL}/batch": '{"items": [{"input": "x"}], %s}',
    f"{URL}/jobs": '{"input": "x", %s}',
}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    "member",
    [
        f'"unknown": {HALF}',
        f'"unknown": {{"a": [1, {HALF}]}}',
        f'"unknown": {{{HALF}: 1}}',
        f"{HALF}: 1",
        f'"language": {HALF}',
        f'"extra_params": {{"a": {HALF}}}',
        f'"pronunciations": {{{HALF}: "x"}}',
    ],
)
def test_half_a_surrogate_pair_is_refused_anywhere(
    client: httpx.Client, path: str, member: str
) -> None:
    response = client.post(path, content=BODIES[path] % member, headers=HEADERS)
    assert "valid Unicode" in error_of(response, 400)["message"]


def test_an_item_of_a_batch_fails_alone_whatever_its_members_are_called(
    client: httpx.Client,
) -> None:
    body = f'{{"items": [{{"input": "x", {HALF}: 1}}, {{"input": "x"}}]}}'
    answer = client.post(f"{URL}/batch", content=body, headers=HEADERS)
    assert answer.status_code == 200
    assert [each["status"] for each in answer.json()["results"]] == ["error", "success"]


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("depth", [40, 300, 900, 100_000])
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("name", ["unknown", "voice", "extra_params", "references", "speed"])
def test_deep_nests_are_refused(
    client: httpx.Client, path: str, depth: int, opened: str, closed: str, name: str
) -> None:
    member = f'"{name}": {opened * depth}1{closed * depth}'
    response = client.post(path, content=BODIES[path] % member, headers=HEADERS)
    assert len(error_of(response, 400)["message"]) < 300


def test_messages_stay_short_however_much_is_wrong(client: httpx.Client) -> None:
    wrong: list[dict[str, Any]] = [
        {"pronunciations": {f"word {n}": n for n in range(10_000)}},
        {"pronunciations": {"w" * 100_000: 1}},
        {"voice": "v" * 100_000},
        {"model": "m" * 100_000},
        {"language": "l" * 100_000},
        {"x" * 100_000: "\ud800"},
        {"response_format": "f" * 100_000},
    ]
    for fields in wrong:
        body = json.dumps({"input": "x", **fields})
        response = client.post(URL, content=body, headers=HEADERS)
        assert response.status_code in (400, 404)
        assert len(response.content) < 2000


@pytest.mark.parametrize(
    "request_",
    [
        SpeechRequest("\ud800"),
        SpeechRequest("x", voice="\ud800"),
        SpeechRequest("x", model="\ud800"),
        SpeechRequest("x", language="\ud800"),
        SpeechRequest("x", instructions="\ud800"),
        SpeechRequest("x", pronunciations={"x": "\ud800"}),
        SpeechRequest("x", options={"ref_text": "\ud800"}),
    ],
    ids=lambda request: ascii(request)[:0],
)
def test_half_a_surrogate_pair_is_refused_in_python_too(request_: SpeechRequest) -> None:
    with Antiphon.load("toy") as antiphon:
        for speak in (antiphon.speech, lambda request: list(antiphon.stream(request))):
            with pytest.raises(InvalidRequestError) as caught:
                speak(request_)
            caught.value.message.encode()


def test_half_a_surrogate_pair_is_refused_wherever_python_gives_a_voice(offline: Antiphon) -> None:
    half = "\ud800"
    for name in ("name", "ref_text", "consent", "recording"):
        fields: dict[str, Any] = {"name": "x", "recording": RECORDING, name: half}
        with pytest.raises(InvalidRequestError):
            offline.add_voice(**fields)
    for arguments in ((half,), (RECORDING, half)):
        with pytest.raises(InvalidRequestError):
            offline.create_voice(*arguments)
        with pytest.raises(InvalidRequestError):
            offline.generate_voice_clone("x", *arguments)
    assert not [name for name in offline.voices if half in name.id]
