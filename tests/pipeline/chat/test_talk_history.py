"""Items of a conversation: their order, and what becomes of those that go."""

import pytest

from antiphon.contracts.chat_types import Message
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.chat.playback_transcript import PlaybackTranscript
from antiphon.pipeline.chat.talk_history import MAX_ITEMS, ROOT, TalkHistory, TalkItem


def history() -> TalkHistory:
    made = TalkHistory(max_characters=100)
    made.add(TalkItem("a", "user", "Hello."))
    made.add(TalkItem("b", "assistant", ""))
    return made


def test_items_are_told_in_their_order_with_instructions_first() -> None:
    made = history()
    assert made.add(TalkItem("c", "user", "Last.")) == "b"
    assert made.add(TalkItem("d", "user", "Second."), "a") == "a"
    assert made.add(TalkItem("e", "system", "First."), ROOT) is None
    made.delete("c")
    texts = [each.content for each in made.messages("Be short.")]
    assert texts == ["Be short.", "First.", "Hello.", "Second."], "an empty answer is none"
    assert made.messages(" ", [made.find("d")]) == (Message("user", "Second."),)


def test_what_cannot_be_is_refused() -> None:
    made = history()
    made.find("b").status = "in_progress"
    for change in (
        lambda: made.add(TalkItem("a", "user")),
        lambda: made.add(TalkItem("x", "user"), "nobody"),
        lambda: made.add(TalkItem("x", "user", "x" * 100)),
        lambda: made.find("x"),
        lambda: made.delete("b"),
        lambda: made.truncate("a", 0),
        lambda: made.truncate("b", 0),
    ):
        with pytest.raises(InvalidRequestError):
            change()
    assert len(made.messages("")) == 1


def test_what_was_not_heard_is_cut_and_stays_cut() -> None:
    heard = PlaybackTranscript()
    heard.write("One two.", "One two.")
    heard.add_audio(1.0)
    heard.complete()
    made = history()
    item = TalkItem("c", "assistant", heard.text, is_spoken=True, transcript=heard)
    made.add(item)
    made.truncate("c", 1000)
    assert (item.text, item.status) == ("One two.", "completed")
    made.truncate("c", 500)
    made.truncate("c", 1000)
    assert (item.text, item.status) == ("One", "incomplete")
    with pytest.raises(InvalidRequestError, match="1000 ms"):
        made.truncate("c", 1002)


def test_an_answer_stands_before_what_was_said_while_it_was_prepared() -> None:
    history = TalkHistory(1000)
    assert history.last_id == "root"
    for id in ("a", "b", "c"):
        history.add(TalkItem(id, "user", id))
    assert history.last_id == "c"
    assert history.add_reply(TalkItem("to a", "assistant", "A"), "a") == "a"
    assert [each.content for each in history.messages("")] == ["a", "A", "b", "c"]
    history.delete("b")
    assert history.add_reply(TalkItem("to b", "assistant", "B"), "b") == "c"
    assert history.add_reply(TalkItem("first", "assistant", "0"), "root") is None


def test_a_conversation_has_a_number_of_items() -> None:
    made = TalkHistory(max_characters=100)
    for number in range(MAX_ITEMS):
        made.add(TalkItem(str(number), "user", ""))
    with pytest.raises(InvalidRequestError, match="delete some"):
        made.add(TalkItem("more", "user", ""))
    made.delete("0")
    made.add(TalkItem("more", "user", ""))
