"""Sessions through NVIDIA Dynamo itself, by a plain WebSocket client."""

import pytest

from tests.dynamo.deployment import LONG, SHORT, Deployment, free_port, in_flight
from tests.servers import DEADLINE_S, wait_until
from tests.sockets import messages

pytest.importorskip("dynamo.common.backend.run", reason="NVIDIA Dynamo is not installed")
pytestmark = [
    pytest.mark.dynamo,
    pytest.mark.slow,  # starts and stops many processes, whose times of grace are waited for
]


def test_text_is_spoken_while_it_arrives_through_dynamo(deployment: Deployment) -> None:
    deployment.start_worker("realtime")
    with deployment.talk() as talk:
        for _ in range(2):
            talk.send("input_text.append", text=SHORT)
        talk.send("response.create")
        found = talk.until("response.output_audio.delta")
        talk.send("input_text.append", text=SHORT)
        talk.send("input_text.commit")
        found += talk.until("response.done")
        (transcript,) = messages(found, "response.output_audio_transcript.done")
        assert transcript["transcript"] == SHORT * 3
        item = {"type": "message", "role": "user"}
        said = {**item, "content": [{"type": "input_text", "text": LONG}]}
        talk.send("conversation.item.create", item=said)
        talk.send("response.create")
        talk.until("response.output_audio.delta")
        talk.send("response.cancel")
        (cancelled,) = messages([talk.until("response.done")[-1]])
        assert cancelled["response"]["status"] == "cancelled"
        talk.send("input_text.commit")
        (refused,) = messages([talk.until("error")[-1]])
        assert "no text to commit" in refused["error"]["message"]


def test_speech_and_sessions_of_one_model_have_workers_of_their_own(
    deployment: Deployment,
) -> None:
    deployment.start_worker()
    worker = deployment.start_worker("realtime")
    assert deployment.speech("Hello.")
    with deployment.talk() as talk:
        talk.send("input_text.append", text=LONG)
        talk.send("response.create")
        talk.send("input_text.commit")
        talk.until("response.output_audio.delta")
        worker.terminate()  # it lets the response end
        found = talk.until("response.done")
        assert messages(found)[-1]["response"]["status"] == "completed"
        assert talk.rest() == []
    assert worker.wait(DEADLINE_S) == 0
    assert deployment.speech("Hello.")


def test_a_session_whose_client_leaves_ends(deployment: Deployment) -> None:
    port = free_port(below=2**15)
    deployment.start_worker("realtime", DYN_SYSTEM_PORT=str(port), DYN_SYSTEM_HOST="127.0.0.1")
    with deployment.talk() as talk:
        talk.send("input_text.append", text=LONG * 60)
        talk.send("response.create")
        talk.until("response.output_audio.delta")
        wait_until(lambda: in_flight(port) == 1)
    wait_until(lambda: in_flight(port) == 0)
