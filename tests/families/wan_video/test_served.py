"""Every layout behind a server: OpenAI's SDK, Dynamo's body and Python make the same video."""

import base64
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from antiphon import Antiphon, DiffusionParameters, VideoRequest
from antiphon.config import DataSettings, ModelSettings, Settings
from antiphon.media.image_codec import decode_image
from antiphon.media.results import VideoResult
from tests.families.wan_video.conftest import WanCheckpoint
from tests.families.wan_video.official import LAYOUTS
from tests.servers import start_server
from tests.videos import decoded_video, png

NUM_STEPS = 2
FIELDS: dict[str, Any] = {"num_inference_steps": NUM_STEPS, "num_frames": 5, "fps": 8, "seed": 4}
FRAME = png(64, 64, 90)


@pytest.mark.slow  # loads the checkpoint twice for each layout
@pytest.mark.filterwarnings("ignore:The Sora API:DeprecationWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_way_makes_the_same_video(wan: WanCheckpoint, layout: str, tmp_path: Path) -> None:
    path = str(wan(layout))
    settings = Settings(
        model=ModelSettings(source=path, device="cpu", name="wan"),
        data=DataSettings(dir=tmp_path),
    )
    takes_image = not layout.startswith("t2v")
    fields: dict[str, Any] = {"prompt": "a cat", "model": "wan", "size": "64x64"}
    address = f"data:image/png;base64,{base64.b64encode(FRAME).decode()}"
    reference: dict[str, Any] = {"input_reference": address} if takes_image else {}
    upload: dict[str, Any] = {"input_reference": ("a.png", FRAME)} if takes_image else {}
    with start_server(settings) as server:
        body = {**fields, **reference, "response_format": "b64_json", "nvext": FIELDS}
        answer = httpx.post(f"{server.base_url}/v1/videos", json=body, timeout=120).json()
        with openai.OpenAI(base_url=f"{server.base_url}/v1", api_key="-") as client:
            video = client.videos.create_and_poll(
                **fields, **upload, extra_body=FIELDS, poll_interval_ms=50
            )
            assert video.status == "completed", video
            downloaded = client.videos.download_content(video.id).read()
        if layout.startswith("i2v"):
            refused = httpx.post(f"{server.base_url}/v1/videos", json=fields)
            assert refused.json()["error"]["param"] == "input_reference"
    made = base64.b64decode(answer["data"][0]["b64_json"])
    assert made == downloaded
    request = VideoRequest(
        "a cat",
        4,
        width=64,
        height=64,
        num_frames=5,
        fps=8,
        image=decode_image(FRAME, max_pixels=64 * 64) if takes_image else None,
        parameters=DiffusionParameters(num_inference_steps=NUM_STEPS),
    )
    with Antiphon.load(path, device="cpu") as antiphon:
        result: VideoResult = antiphon.video(request)
    assert result.frames.shape == (5, 64, 64, 3)
    assert result.encoded() == made
    frames, fps = decoded_video(made)
    assert (frames.shape, fps) == (result.frames.shape, 8)
