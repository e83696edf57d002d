"""What tests of videos share: files looked into, and images to begin with."""

import io

import av
import numpy as np
from numpy.typing import NDArray

from antiphon.media.image_codec import ImageFormat, encode_image


def decoded_video(content: bytes) -> tuple[NDArray[np.uint8], float]:
    """Return the frames of an MP4 file, and how many are played a second."""
    with av.open(io.BytesIO(content), "r") as container:
        rate = container.streams.video[0].average_rate
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert rate is not None
    return np.stack(frames), float(rate)


def png(height: int = 16, width: int = 24, grey: int = 200) -> bytes:
    return encode_image(np.full((height, width, 3), grey, np.uint8), ImageFormat.PNG)
