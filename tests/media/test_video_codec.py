"""Videos as files: players find what went in, at its speed, however it was cut into pieces."""

import io

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.concurrency import Workers
from antiphon.contracts.picture_types import Video
from antiphon.media import video_codec
from antiphon.media.video_codec import (
    RECIPES,
    VideoEncoder,
    VideoRecipe,
    chosen_recipe,
    encode_video,
    encoded_video,
)

AVAILABLE = [each for each in RECIPES if each.codec in av.codecs_available]


def gradients(num_frames: int, height: int, width: int) -> NDArray[np.uint8]:
    """Return frames that move smoothly, so that a codec loses little of them."""
    times, rows, columns = np.mgrid[:num_frames, :height, :width]
    red = columns * 200 // width + times
    green = rows * 200 // height
    return np.stack([red, green, 50 + times], axis=-1).astype(np.uint8)


def encoded(frames: NDArray[np.uint8], fps: int, recipe: VideoRecipe, piece: int) -> bytes:
    num_frames, height, width, _ = frames.shape
    encoder = VideoEncoder(width, height, fps, num_frames, recipe)
    for start in range(0, num_frames, piece):
        encoder.encode(frames[start : start + piece])
    return encoder.finish()


@pytest.mark.parametrize("recipe", AVAILABLE, ids=lambda recipe: recipe.codec)
@pytest.mark.parametrize(
    ("num_frames", "height", "width", "fps"),
    [(1, 16, 16, 24), (17, 48, 64, 16), (9, 31, 33, 30), (61, 8, 24, 60)],
)
def test_a_file_holds_its_frames(
    recipe: VideoRecipe, num_frames: int, height: int, width: int, fps: int
) -> None:
    frames = gradients(num_frames, height, width)
    content = encoded(frames, fps, recipe, num_frames)
    assert encoded(frames, fps, recipe, 1) == content
    with av.open(io.BytesIO(content), "r") as container:
        (stream,) = container.streams.video
        decoded = [frame for frame in container.decode(video=0)]
        assert stream.average_rate == fps
        assert stream.duration is not None
        assert stream.time_base is not None
        assert stream.duration * stream.time_base * fps == num_frames
    times = [frame.time for frame in decoded]
    assert times == [index / fps for index in range(num_frames)]
    pixels = np.stack([frame.to_ndarray(format="rgb24") for frame in decoded])
    assert pixels.shape == (num_frames, height + height % 2, width + width % 2, 3)
    assert np.abs(pixels[:, :height, :width].astype(int) - frames).mean() < 8
    assert {frame.format.name for frame in decoded} == {"yuv420p"}
    # A player can begin before it has all: what says where the frames are lies before them.
    assert content.index(b"moov") < content.index(b"mdat")


def test_the_best_codec_that_there_is_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen_recipe.cache_clear()
    assert chosen_recipe() is AVAILABLE[0]
    monkeypatch.setattr(av, "codecs_available", {"mpeg4"})
    chosen_recipe.cache_clear()
    assert chosen_recipe().title == "MPEG-4 part 2"
    monkeypatch.undo()
    chosen_recipe.cache_clear()


async def test_pieces_in_threads_make_the_same_file(monkeypatch: pytest.MonkeyPatch) -> None:
    video = Video(gradients(10, 16, 16), 24)
    monkeypatch.setattr(video_codec, "_PIXELS_OF_PIECE", 16 * 16 * 3)
    workers = Workers("encoder", 1)
    try:
        found = await encode_video(video, workers)
    finally:
        workers.close()
    assert found == encoded_video(video)
