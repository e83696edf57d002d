"""The page's tab for chats in a real browser."""

import json
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

pytest.importorskip("selenium", reason="selenium is not installed")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from antiphon.config import ServerSettings
from antiphon.contracts.chat_types import ChatRequest
from antiphon.pipeline.chat.service import ChatModel, Chats
from tests.own_voices import VOICES, make_own_voice, start_own_voice
from tests.servers import DEADLINE_S, TOY, RunningServer, start_server, wait_until
from tests.web.conftest import API_KEY
from tests.web.page import Page
from tests.web.test_looks import ENOUGH_CONTRAST, MEASURE_CONTRAST

pytestmark = pytest.mark.browser

MARKUP = "<b id=bold>Hello</b> & 'you'"
SHOWN = """
return [...document.querySelectorAll("main [data-task]")].filter((e) => e.checkVisibility())
  .map((e) => e.dataset.task);
"""


def open_chat(page: Page, server: RunningServer) -> None:
    page.open(server.base_url)
    page.find("task-chat").click()
    page.write("0", "chat-temperature")  # the toy's answers follow their script


def said(page: Page) -> list[str]:
    return page.texts("#chat-log .words")


def notes(page: Page) -> list[str]:
    return page.texts("#chat-log .note")


def spoken(page: Page, field: str) -> int:
    """A count of the latest answer that is spoken; 0 before there is one."""
    return int(page.script("return window.antiphon.spoken()?.[arguments[0]] ?? 0", field))


def send(page: Page, text: str) -> None:
    page.write(text, "chat-text")
    page.find("chat-text").send_keys(Keys.ENTER)


def wait_for_status(page: Page, *statuses: str) -> None:
    page.wait_until(lambda: page.text("chat-status") in statuses)


def test_an_answer_is_shown_as_text_and_a_new_chat_forgets_it(
    page: Page, server: RunningServer
) -> None:
    open_chat(page, server)
    page.find("chat-text").send_keys("One", Keys.SHIFT, Keys.ENTER, Keys.NULL, "two")
    page.find("chat-text").send_keys(Keys.ENTER)
    wait_for_status(page, "Finished", "Failed")
    assert said(page) == ["One\ntwo", "You said: One\ntwo"]
    send(page, MARKUP)
    page.wait_until(lambda: len(said(page)) == 4)
    wait_for_status(page, "Finished", "Failed")
    assert said(page)[2:] == [MARKUP, f"You said: {MARKUP}"]
    assert page.driver.find_elements(By.ID, "bold") == []
    assert notes(page)[1].startswith("first token ")
    assert "first audio" not in notes(page)[1]
    assert page.find("chat-log").aria_role == "log"
    page.find("chat-new").click()
    assert said(page) == []
    assert page.driver.switch_to.active_element.get_property("id") == "chat-text"
    assert page.complaints() == []


def test_a_spoken_answer_is_played_to_its_end(page: Page, server: RunningServer) -> None:
    open_chat(page, server)
    page.find("chat-speak").click()
    page.choose("chat-voice", '["toy","alto"]')
    send(page, "Hi.")
    wait_for_status(page, "Finished", "Failed")
    assert said(page) == ["Hi.", "You said: Hi."]
    assert "first token" in notes(page)[1]
    assert "first audio" in notes(page)[1]
    assert spoken(page, "playedSamples") == spoken(page, "receivedSamples") > 0
    assert page.complaints() == []


def test_stopping_a_voice_silences_it(page: Page, server: RunningServer) -> None:
    open_chat(page, server)
    page.find("chat-speak").click()
    send(page, "A minute of tones. " * 60)
    page.wait_until(lambda: spoken(page, "playedSamples") > 0)
    wait_for_status(page, "Playing")
    page.find("chat-stop").click()
    assert page.text("chat-status") == "Stopped"
    assert len(said(page)[1]) > 1000
    assert spoken(page, "playedSamples") < spoken(page, "receivedSamples")
    send(page, "Hi.")
    page.wait_until(lambda: len(said(page)) == 4)
    wait_for_status(page, "Finished", "Failed")
    assert said(page)[3] == "You said: Hi."
    assert spoken(page, "playedSamples") == spoken(page, "receivedSamples") > 0
    assert page.complaints() == []


def test_stopping_frees_the_server_and_keeps_what_was_said(page: Page) -> None:
    asked: list[Any] = []
    is_closed = threading.Event()

    async def answer(request: Request) -> Response:
        body = await request.body()
        if not body:  # the server warms its routes
            return Response()
        asked.append(json.loads(body)["messages"])

        async def pieces() -> AsyncGenerator[str, None]:
            chunk = {"choices": [{"delta": {"content": "Once upon"}, "finish_reason": None}]}
            yield f"data: {json.dumps(chunk)}\n\n"
            try:
                await anyio.sleep_forever()
            finally:
                is_closed.set()

        return StreamingResponse(pieces(), media_type="text/event-stream")

    def replace_chats(app: FastAPI) -> None:
        app.router.routes.insert(0, Route("/v1/chat/completions", answer, methods=["POST"]))

    with start_server(on_app=replace_chats) as server:
        open_chat(page, server)
        send(page, "Tell")
        page.wait_until(lambda: said(page) == ["Tell", "Once upon"])
        assert page.find("chat-stop").is_enabled()
        page.find("chat-stop").click()
        assert page.text("chat-status") == "Stopped"
        assert not page.find("chat-stop").is_enabled()
        assert is_closed.wait(DEADLINE_S)
        assert said(page) == ["Tell", "Once upon"]
        assert "stopped" in notes(page)[1]
        assert page.text("alert") == ""
        send(page, "Go on")
        wait_until(lambda: len(asked) == 2)
        page.find("chat-text").send_keys(Keys.ESCAPE)
        wait_for_status(page, "Stopped")
    assert asked[1] == [
        {"role": "user", "content": "Tell"},
        {"role": "assistant", "content": "Once upon"},
        {"role": "user", "content": "Go on"},
    ]


def test_what_is_refused_is_told_and_can_be_sent_again(page: Page, server: RunningServer) -> None:
    open_chat(page, server)
    text = "long " * 2000
    send(page, text)
    wait_for_status(page, "Failed")
    assert "HTTP 400" in page.text("alert")
    assert "context_length_exceeded" in page.text("alert")
    assert said(page) == []
    assert page.find("chat-text").get_property("value") == text
    page.complaints()


def test_a_server_that_only_chats_shows_the_chat_alone(page: Page) -> None:
    settings = TOY.model_copy(update={"server": ServerSettings(output_modalities=("text",))})
    with start_server(settings) as server:
        page.driver.get(server.base_url)
        page.wait_until(lambda: page.script(SHOWN) == ["chat"])
        assert not page.find("tasks").is_displayed()
        assert not page.find("chat-speak").is_displayed()
        assert not page.find("chat-model").is_displayed()
        page.write("0", "chat-temperature")
        send(page, "Hi.")
        wait_for_status(page, "Finished", "Failed")
        assert said(page) == ["Hi.", "You said: Hi."]
        assert page.complaints() == []


@pytest.mark.slow(reason="loads a model that speaks itself")
def test_a_model_speaks_with_a_voice_of_its_own(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="needs the extra 'torch'")
    answered: list[ChatRequest] = []
    check = Chats.check

    def noted(chats: Chats, request: ChatRequest) -> ChatModel:
        answered.append(request)
        return check(chats, request)

    monkeypatch.setattr(Chats, "check", noted)
    with start_own_voice(make_own_voice(tmp_path)) as server:
        page.driver.get(server.base_url)
        page.wait_until(lambda: page.script(SHOWN) == ["chat"])
        page.find("chat-speak").click()
        page.wait_until(lambda: page.texts("#chat-voice option") == VOICES)
        page.choose("chat-voice", '["omni","Ethan"]')
        page.script("document.querySelector('#chat-form details').open = true")
        page.write("8", "chat-max-tokens")
        send(page, "Hi.")
        wait_for_status(page, "Finished", "Failed")
        assert page.text("alert") == ""
        assert [each.role for each in answered[-1].messages] == ["system", "user"]
        assert "first audio" in notes(page)[1]
        assert spoken(page, "playedSamples") == spoken(page, "receivedSamples") > 0
        assert page.complaints() == []


def test_it_can_be_read_on_a_narrow_screen(page: Page, server: RunningServer) -> None:
    page.emulate(width=320, dark=True)
    try:
        open_chat(page, server)
        page.find("chat-speak").click()
        page.script("document.querySelector('#chat-form details').open = true")
        send(page, "w" * 200)
        page.wait_until(lambda: len(said(page)) == 2)
        page.wait_until(lambda: "first audio" in notes(page)[1])
        assert page.script("return document.documentElement.scrollWidth") <= 320
        contrasts = page.script(MEASURE_CONTRAST)
        assert len(contrasts) > 15
        assert [item for item in contrasts if item[1] < ENOUGH_CONTRAST] == []
        controls = page.driver.find_elements(By.CSS_SELECTOR, "input, select, textarea, button")
        seen = [control for control in controls if control.is_displayed()]
        assert [each.get_attribute("id") for each in seen if not each.accessible_name] == []
        page.find("chat-new").click()
    finally:
        page.emulate()


def test_the_key_is_asked_for_and_used(page: Page, locked_server: RunningServer) -> None:
    open_chat(page, locked_server)
    send(page, "Hi.")
    page.wait_until(lambda: page.find("key").is_displayed())
    assert "No API key was given" in page.text("alert")
    page.find("key").send_keys(API_KEY, Keys.ENTER)
    page.wait_until(lambda: page.text("alert") == "")
    assert page.find("chat-text").get_property("value") == "Hi."
    page.find("chat-text").send_keys(Keys.ENTER)
    wait_for_status(page, "Finished")
    assert said(page) == ["Hi.", "You said: Hi."]
    page.complaints()
