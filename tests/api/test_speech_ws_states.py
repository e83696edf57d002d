"""Whatever a client says, in whatever order: each utterance ends and each mistake is told."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.servers import RunningServer, wait_until
from tests.sockets import Client, Received, connected, messages

PATH = "/v1/audio/speech/stream"
Action: TypeAlias = tuple[str, Any]

CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "response_format": st.sampled_from(["pcm", "wav", "mp3"]),
        "stream_audio": st.booleans(),
        "word_timestamps": st.booleans(),
        "split_granularity": st.sampled_from(["none", "sentence", "clause"]),
        "speed": st.sampled_from([1.0, 2.0]),
    },
)
TEXTS = st.sampled_from(
    [*("1 chunks, then stop", "3 chunks, then engine error", "0 chunks, then bug"), "Hm. ", " ", ""]
)
WRONG = st.sampled_from(
    [
        {"type": "input.text"},
        {"type": "input.text", "text": {}},
        {"type": "session.config", "voice": "nobody"},
        {"type": "session.config", "speed": "fast"},
        {"type": "session.config", "stream_audio": 7},
        {"type": "sing"},
        {"kind": "input.text"},
    ]
)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("text"), TEXTS),
        st.tuples(st.just("text"), TEXTS),
        st.tuples(st.just("done"), st.none()),
        st.tuples(st.just("done"), st.none()),
        st.tuples(st.just("clear"), st.none()),
        st.tuples(st.just("config"), CONFIGS),
        st.tuples(st.just("wrong"), WRONG),
    ),
    max_size=14,
)


@dataclass
class Expected:
    """What the server owes the client since it was last cleared."""

    num_utterances: int = 0
    is_talking: bool = False
    owed: list[int] = field(default_factory=list)
    num_wrong: int = 0

    def begin(self) -> None:
        if not self.is_talking:
            self.is_talking = True
            self.num_utterances += 1

    def end(self) -> None:
        self.begin()
        self.is_talking = False
        self.owed.append(self.num_utterances - 1)


def perform(talk: Client, action: Action, expected: Expected) -> list[Received]:
    """Do one thing; return what was received, if it had to be waited for."""
    kind, value = action
    if kind == "text":
        expected.begin()
        talk.send("input.text", text=value)
    elif kind == "done":
        expected.end()
        talk.send("input.done")
    elif kind == "clear":
        talk.send("input.clear")
        return talk.until("input.cleared")
    elif kind == "config":
        expected.num_wrong += expected.is_talking
        talk.send("session.config", **value)
    else:
        expected.num_wrong += 1
        talk.send(**value)
    return []


def check(received: list[Received], expected: Expected, *, is_whole: bool) -> None:
    """Check all that came between two clears, or since the last one if it is ``whole``."""
    told = messages(received)
    refused = [each for each in messages(told, "error") if "utterance_index" not in each]
    assert len(refused) == expected.num_wrong
    done = [each["utterance_index"] for each in messages(told, "session.done")]
    assert done == expected.owed[: len(done)]
    if is_whole:
        assert done == expected.owed
    open_file: tuple[int, int] | None = None
    ended: list[tuple[int, int]] = []
    for each in received:
        if isinstance(each, bytes) or each["type"] == "audio.chunk":
            assert open_file is not None, "audio belongs to a file"
        elif "sentence_index" in each:
            place = (each["utterance_index"], each["sentence_index"])
            if each["type"] == "audio.start":
                assert open_file is None
                open_file = place
            elif each["type"] == "audio.done" or open_file is None:
                assert open_file in (place, None)
                open_file = None
                ended.append(place)
    assert ended == sorted(set(ended)), "in order, each once"
    if is_whole:
        assert open_file is None
        for each in messages(told, "session.done"):
            files = [place for place in ended if place[0] == each["utterance_index"]]
            assert len(files) == each["total_sentences"]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS)
def test_every_utterance_ends_and_every_mistake_is_told(
    faulty_server: RunningServer, actions: list[Action]
) -> None:
    expected = Expected()
    with connected(faulty_server, PATH) as talk:
        talk.send("session.config", response_format="pcm")
        for action in actions:
            if received := perform(talk, action, expected):
                check(received[:-1], expected, is_whole=False)
                expected = Expected(expected.num_utterances)
        if expected.is_talking:
            expected.end()
        talk.send("session.close")
        check(talk.rest(), expected, is_whole=True)
        assert talk.close_code == 1000
    wait_until(lambda: faulty_server.num_open == 0)
