"""OpenAI's own SDK makes videos: created, polled, downloaded, listed, deleted."""

import warnings
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.videos import decoded_video, png

SMALL: dict[str, Any] = {"size": "32x24", "extra_body": {"seed": 5, "fps": 8}}

pytestmark = pytest.mark.filterwarnings("ignore:The Sora API:DeprecationWarning")


def test_a_video_from_its_creation_to_its_end(client: openai.OpenAI, tmp_path: Path) -> None:
    created = client.videos.create(prompt="a cat", model="sora-2", seconds="2", **SMALL)  # type: ignore[arg-type]
    assert created.object == "video"
    assert created.status in ("queued", "in_progress", "completed")
    assert (created.model, created.seconds, created.size) == ("org/toy", "2", "32x24")
    video = client.videos.poll(created.id, poll_interval_ms=20)
    assert video.status == "completed", video
    assert video.progress == 100
    assert video.error is None
    assert video.completed_at is not None
    assert video.expires_at is not None
    assert video.expires_at > video.completed_at >= video.created_at
    content = client.videos.download_content(video.id)
    content.write_to_file(tmp_path / "cat.mp4")
    frames, fps = decoded_video((tmp_path / "cat.mp4").read_bytes())
    assert frames.shape == (17, 24, 32, 3)  # 4n + 1
    assert fps == 8
    thumbnail = client.videos.download_content(video.id, variant="thumbnail")
    assert thumbnail.read()[8:12] == b"WEBP"
    sheet = client.videos.download_content(video.id, variant="spritesheet")
    assert sheet.read()[:3] == b"\xff\xd8\xff"
    assert client.videos.retrieve(video.id) == video
    deleted = client.videos.delete(video.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (video.id, True, "video.deleted")
    for gone in (client.videos.retrieve, client.videos.download_content, client.videos.delete):
        with pytest.raises(openai.NotFoundError):
            gone(video.id)


def test_a_video_begins_with_an_image(client: openai.OpenAI) -> None:
    video = client.videos.create_and_poll(
        prompt="a cat",
        input_reference=("cat.png", png(grey=250), "image/png"),
        poll_interval_ms=20,
        **SMALL,
    )
    assert video.status == "completed", video
    frames, _ = decoded_video(client.videos.download_content(video.id).read())
    assert frames[0].mean() > 240  # as the image
    assert frames[-1].mean() < 230


def test_videos_are_listed_in_pages(client: openai.OpenAI) -> None:
    ids = [client.videos.create(prompt=f"cat {n}", **SMALL).id for n in range(3)]
    for order in ("desc", "asc"):
        listed = [each.id for each in client.videos.list(limit=2, order=order)]
        wanted = [*reversed(ids)] if order == "desc" else ids
        assert [id for id in listed if id in ids] == wanted
    for id in ids:
        client.videos.delete(id)  # wherever it is
    assert not set(ids) & {each.id for each in client.videos.list()}


def test_what_is_wrong_is_refused_at_once(client: openai.OpenAI) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("size", {"size": "33x24"}),
        ("size", {"size": "wide"}),
        ("seconds", {"seconds": "long"}),
        ("num_frames", {"seconds": "3600"}),
        ("model", {"model": "other"}),
        ("prompt", {"prompt": " "}),
        ("input_reference", {"input_reference": ("a.png", b"no image", "image/png")}),
        ("input_reference", {"extra_body": {"input_reference": {"file_id": "file_1"}}}),
        ("flow_shift", {"extra_body": {"flow_shift": 3}}),
    ]
    for param, changes in wrong:
        with pytest.raises(openai.APIStatusError) as refused:
            client.videos.create(**{"prompt": "a cat", **changes})
        assert refused.value.status_code in (400, 404), changes
        assert refused.value.param == param, changes
    with warnings.catch_warnings():
        assert all(each.status != "failed" for each in client.videos.list())
