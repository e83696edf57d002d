"""The page's tabs for images and videos in a real browser."""

import base64
import io
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from PIL import Image
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

pytest.importorskip("selenium", reason="selenium is not installed")

from selenium.webdriver.common.by import By

from tests.servers import RunningServer, start_server
from tests.web.page import Page

pytestmark = pytest.mark.browser

SHOWN = """
const task = arguments[0];
return [...document.querySelectorAll("main [data-task]")].filter((e) => e.checkVisibility())
  .every((e) => e.dataset.task === task);
"""
PIXELS = """
const picture = document.querySelectorAll("#image-pictures img")[arguments[0]];
const canvas = document.createElement("canvas");
[canvas.width, canvas.height] = [picture.naturalWidth, picture.naturalHeight];
canvas.getContext("2d").drawImage(picture, 0, 0);
return canvas.toDataURL("image/png").split(",")[1];
"""


def pixels_of(content: str) -> bytes:
    return Image.open(io.BytesIO(base64.b64decode(content))).convert("RGB").tobytes()


def shown_pixels(page: Page, number: int = 0) -> bytes:
    return pixels_of(page.script(PIXELS, number))


def drawn_pixels(server: RunningServer, **fields: Any) -> list[bytes]:
    answer = httpx.post(f"{server.base_url}/v1/images/generations", json=fields)
    return [pixels_of(each["b64_json"]) for each in answer.raise_for_status().json()["data"]]


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
    assert page.script("return document.querySelector('#image-pictures img').width") == 64
    assert page.script("return document.getElementById('image-progress').value") == 1
    expected = drawn_pixels(server, prompt="A red box", seed=int(page.text("image-seed-used")))
    assert [shown_pixels(page)] == expected
    assert page.complaints() == []


def test_several_pictures_of_another_shape_are_drawn_and_edited(
    page: Page, server: RunningServer
) -> None:
    open_tab(page, server, "image")
    for id in ("image-result", "image-width"):
        assert not page.find(id).is_displayed()
    page.choose("image-shape", "80x56")
    page.write("2", "image-count")
    page.write("A red box", "image-prompt")
    page.find("image-make").click()
    wait_for_status(page, "image", "Finished", "Failed")
    seed = int(page.text("image-seed-used"))
    expected = drawn_pixels(server, prompt="A red box", seed=seed, n=2, size="80x56")
    assert [shown_pixels(page, number) for number in range(2)] == expected

    page.find("image-pictures").find_elements(By.TAG_NAME, "button")[3].click()  # edit the second
    assert page.text("image-make") == "Edit"
    assert page.driver.switch_to.active_element == page.find("image-prompt")
    page.write("1", "image-count")
    page.find("image-make").click()
    wait_for_status(page, "image", "Finished", "Failed")
    seed = int(page.text("image-seed-used"))
    file = io.BytesIO()
    Image.frombytes("RGB", (80, 56), expected[1]).save(file, "PNG")
    fields = {"prompt": "A red box", "seed": str(seed), "size": "80x56"}
    answer = httpx.post(
        f"{server.base_url}/v1/images/edits", data=fields, files={"image": file.getvalue()}
    )
    (edited,) = answer.raise_for_status().json()["data"]
    assert shown_pixels(page) == pixels_of(edited["b64_json"])
    (unedited,) = drawn_pixels(server, **fields | {"seed": seed})
    assert shown_pixels(page) != unedited
    page.find("image-source-hint").find_element(By.TAG_NAME, "button").click()
    assert page.text("image-make") == "Draw"
    assert page.complaints() == []


def test_a_size_of_ones_own_is_drawn(page: Page, server: RunningServer) -> None:
    open_tab(page, server, "image")
    page.choose("image-shape", "custom")
    page.write("24", "image-width")
    page.find("image-make").click()
    wait_for_status(page, "image", "Finished", "Failed")
    size = page.script(
        "const i = document.querySelector('#image-pictures img'); return [i.width, i.height]"
    )
    assert size == [24, 64]


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
    assert page.script("return document.getElementById('video-progress').value") == 1
    # Its file is whole; whether this browser has the licence to decode H.264 is another matter.
    assert page.script("return document.getElementById('video-player').src").startswith("blob:")
    assert page.find("video-download").is_displayed()
    assert page.complaints() == []


def test_a_video_in_the_queue_is_shown_with_its_position(page: Page) -> None:
    """The answers are those of a server that works on another video first."""
    state = {"status": "queued"}

    async def create(request: Request) -> Response:
        return JSONResponse({"id": "mine", "status": "queued", "progress": 0})

    async def retrieve(request: Request) -> Response:
        return JSONResponse({"id": "mine", "progress": 0, **state})

    async def page_of_jobs(request: Request) -> Response:
        statuses = {"newer": "queued", "mine": "queued", "older": "queued", "first": "in_progress"}
        jobs = [{"id": id, "status": status} for id, status in statuses.items()]
        return JSONResponse({"data": jobs})

    def replace_videos(app: FastAPI) -> None:
        for path, answer, method in (
            ("/v1/videos", create, "POST"),
            ("/v1/videos", page_of_jobs, "GET"),
            ("/v1/videos/mine", retrieve, "GET"),
            ("/v1/videos/mine", retrieve, "DELETE"),
        ):
            app.router.routes.insert(0, Route(path, answer, methods=[method]))

    with start_server(on_app=replace_videos) as server:
        open_tab(page, server, "video")
        page.find("video-make").click()
        wait_for_status(page, "video", "Queued, position 2")
        state["status"] = "in_progress"
        wait_for_status(page, "video", "Working…")
        page.find("video-stop").click()
        wait_for_status(page, "video", "Stopped")
