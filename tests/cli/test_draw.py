"""`antiphon image` and `antiphon video` write whole files or none; Python makes the same."""

import os
from pathlib import Path

import numpy as np
import pytest

from antiphon import Antiphon, ImageRequest, SpeechRequest, VideoRequest
from antiphon.contracts.picture_types import DiffusionParameters, Progress
from antiphon.errors import InvalidRequestError, UnservedTaskError
from antiphon.media import image_codec
from antiphon.media.image_codec import decode_image
from tests.cli.conftest import Run
from tests.videos import decoded_video, png

TOY = ("--model", "toy", "--seed", "3")
STEPS = DiffusionParameters(num_inference_steps=4)


def test_an_image_is_what_python_makes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "old.png").write_bytes(png())
    flags = ("--size", "32x24", "--steps", "4", "--negative-prompt", "dogs", *TOY)
    for name, more in (("cat.png", ()), ("cat2.png", ("--image", str(tmp_path / "old.png")))):
        done = run("image", "a cat", "-o", str(tmp_path / name), *flags, *more)
        assert done.exit_code == 0, done.stderr
        assert f"{name}: 32x24, seed 3" in done.stderr
        assert "step: 4 of 4" in done.stderr
    request = ImageRequest("a cat", 3, "dogs", width=32, height=24, parameters=STEPS)
    edited = ImageRequest(
        "a cat", 3, "dogs", width=32, height=24, parameters=STEPS, images=(pixels(png()),)
    )
    steps: list[Progress] = []
    with Antiphon.load("toy") as antiphon:
        drawn = antiphon.image(request, steps.append)
        np.testing.assert_array_equal(drawn.pixels, pixels((tmp_path / "cat.png").read_bytes()))
        others = antiphon.image(edited).pixels
        np.testing.assert_array_equal(others, pixels((tmp_path / "cat2.png").read_bytes()))
        assert [each.step for each in steps] == sorted({each.step for each in steps})
        assert steps[-1] == Progress(4, 4)  # of several at once the last one is told
        assert drawn.seed == 3
        assert drawn.usage.input_tokens > 0
        drawn.save(tmp_path / "saved.webp")
        np.testing.assert_array_equal(drawn.pixels, pixels((tmp_path / "saved.webp").read_bytes()))
        with pytest.raises(InvalidRequestError, match="gif"):
            drawn.save(tmp_path / "saved.gif")
        assert len(antiphon.speech(SpeechRequest("Hello.")).samples) > 0


def pixels(content: bytes) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    return decode_image(content, max_pixels=10**6)


def test_a_video_is_what_python_makes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first.png").write_bytes(png())
    flags = ("--size", "32x24", "--seconds", "0.5", "--fps", "8", "--image", "first.png", *TOY)
    done = run("video", "a cat", *flags)
    assert done.exit_code == 0, done.stderr
    assert "video.mp4: 32x24, 5 frames, 0.62 s, seed 3" in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["first.png", "video.mp4"]
    frames, fps = decoded_video((tmp_path / "video.mp4").read_bytes())
    assert (frames.shape, fps) == ((5, 24, 32, 3), 8)
    image = pixels(png())
    request = VideoRequest("a cat", 3, width=32, height=24, num_frames=4, fps=8, image=image)
    with Antiphon.load("toy") as antiphon:
        video = antiphon.video(request)
        video.save(tmp_path / "saved.mp4")
        assert video.frames.shape == frames.shape
        assert video.duration_s == 5 / 8
        assert antiphon.video("a cat").fps == 24
    assert (tmp_path / "saved.mp4").read_bytes() == (tmp_path / "video.mp4").read_bytes()


@pytest.mark.parametrize(
    ("command", "flags", "message"),
    [
        ("image", ("-o", "cat.gif"), "Unknown image format 'gif'"),
        ("video", ("-o", "cat.avi"), "Unknown video format 'avi'"),
        ("image", ("--size", "big"), "Invalid --size: 'big'"),
        ("image", ("--size", "33x33"), "multiples of 8"),
        ("video", ("--image", "none.png"), "Cannot read none.png"),
        ("video", ("--fps", "1000"), "Invalid 'fps'"),
        ("image", ("--model", "hibari"), "'hibari' makes audio, and image is wanted"),
        ("video", ("--seconds", "-1"), "Invalid --seconds: -1. It must be more than 0."),
        ("video", ("-o", "no/folder/cat.mp4"), "Cannot write no/folder/cat.mp4"),
    ],
)
def test_what_is_wrong_leaves_no_file(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    flags: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(command, "a cat", *TOY, *flags)
    assert done.exit_code == 1
    assert message in done.stderr
    assert os.listdir(tmp_path) == []


def test_a_model_that_only_speaks_says_so() -> None:
    with Antiphon.load("hibari") as antiphon, pytest.raises(UnservedTaskError, match="speech"):
        antiphon.image("a cat")


def test_without_pillow_it_is_said_how_to_install_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_codec, "find_spec", lambda name: None)
    done = run("image", "a cat", "-o", str(tmp_path / "cat.png"), *TOY)
    assert done.exit_code == 1
    assert "omni" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
