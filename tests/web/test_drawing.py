"""The page's tabs for images and videos in a real browser."""

import base64
import io

import httpx
import pytest
from PIL import Image

pytest.importorskip("selenium", reason="selenium is not installed")

from tests.servers import RunningServer
from tests.web.page import Page

pytestmark = pytest.mark.browser

SHOWN = """
const task = arguments[0];
return [...document.querySelectorAll("main [data-task]")].filter((e) => e.checkVisibility())
  .every((e) => e.dataset.task === task);
"""
PIXELS = """
const picture = document.getElementById("image-picture");
const canvas = document.createElement("canvas");
[canvas.width, canvas.height] = [picture.naturalWidth, picture.naturalHeight];
canvas.getContext("2d").drawImage(picture, 0, 0);
return canvas.toDataURL("image/png").split(",")[1];
"""


def pixels_of(content: str) -> bytes:
    return Image.open(io.BytesIO(base64.b64decode(content))).convert("RGB").tobytes()


def open_tab(page: Page, server: RunningServer, task: str) -> None:
    page.open(server.base_url)
    page.find(f"task-{task}").click()
    assert page.script(SHOWN, task)


def wait_for_status(page: Page, task: str, *statuses: str) -> None:
    page.wait_until(lambda: page.text(f"{task}-status") in statuses)


def test_a_picture_is_the_servers_and_is_drawn_again_by_its_seed(
    page: Page, server: RunningServer
) -> None:
    open_tab(page, server, "image")
    page.write("A red box", "image-prompt")
    page.find("image-make").click()
    wait_for_status(page, "image", "Finished", "Failed")
    assert page.text("image-first").endswith(" s"), "previews were shown"
    assert page.script("return document.getElementById('image-progress').value") == 1
    body = {"prompt": "A red box", "seed": int(page.text("image-seed-used"))}
    answer = httpx.post(f"{server.base_url}/v1/images/generations", json=body).raise_for_status()
    expected = pixels_of(answer.json()["data"][0]["b64_json"])
    assert pixels_of(page.script(PIXELS)) == expected
    assert page.find("image-download").is_displayed()
    assert page.complaints() == []


def test_what_the_server_refuses_is_told(page: Page, server: RunningServer) -> None:
    open_tab(page, server, "image")
    page.write(" ", "image-prompt")
    page.find("image-make").click()
    wait_for_status(page, "image", "Failed")
    assert "HTTP 400" in page.text("alert")
    page.complaints()


def test_arrow_keys_go_from_tab_to_tab(page: Page, server: RunningServer) -> None:
    open_tab(page, server, "speech")
    for task in ("voices", "chat", "image", "video", "speech"):
        page.driver.switch_to.active_element.send_keys("\ue014")  # right
        assert page.driver.switch_to.active_element.get_property("id") == f"task-{task}"
        assert page.script(SHOWN, task)


def test_a_video_is_made_shown_and_offered(page: Page, server: RunningServer) -> None:
    open_tab(page, server, "video")
    page.find("video-make").click()
    wait_for_status(page, "video", "Finished", "Failed")
    assert page.text("video-first") == "100 %"
    # Its file is whole; whether this browser has the licence to decode H.264 is another matter.
    assert page.script("return document.getElementById('video-player').src").startswith("blob:")
    assert page.find("video-download").is_displayed()
    assert page.complaints() == []
