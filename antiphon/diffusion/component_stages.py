"""Stages that run components of a checkpoint once a request: text encoders and VAE decoders."""

from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import Image, Video
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.diffusion.arrays import to_arrays, to_pixels, to_tensor
from antiphon.diffusion.components import ComponentUser


class ComponentStage(ComponentUser):
    """Base class of generators that run one request at a time."""

    def __init__(self, context: LoadContext) -> None:
        """Load the components; raises ModelLoadError."""
        self._lock = Lock()
        super().__init__(context)

    @contextmanager
    def _running(self) -> Iterator[None]:
        with self._lock, self._loader.accelerator.resident(), torch.inference_mode():
            yield


class TextEncoder(ComponentStage):
    """Base class of prompt encoders.

    Prompts are encoded one by one, so embeddings do not depend on the batch.
    """

    @abstractmethod
    def encode(self, prompt: Prompt) -> Mapping[str, Tensor]:
        """Return the embeddings of a prompt by name; called in inference mode, in one thread."""

    def generate(self, prompt: Prompt) -> Generator[Latents, None, None]:
        """Yield arrays by name, once."""
        with self._running():
            encoded = Latents(to_arrays(self.encode(prompt)))
        yield encoded


class VaeDecoder(ComponentStage):
    """Base class of decoders of final and preview latents; a family defines the decoding."""

    @property
    def dtype(self) -> torch.dtype:
        """Element type of the computation; default: that of the settings."""
        return self._loader.dtype

    @abstractmethod
    def decode(self, latents: Tensor, prompt: Prompt) -> Tensor:
        """Decode latents; called in inference mode, in one thread.

        Args:
            latents: latents from the denoiser, on the stage's device and of its element type.

        Returns:
            Values in about [-1, 1], shape ``[1, channels, height, width]``, of a video
            ``[1, channels, num_frames, height, width]``.
        """

    def generate(self, prompt: Prompt) -> Generator[Image | Video, None, None]:
        """Yield the picture of the latents that are the prompt's conditioning."""
        latents: Latents = prompt.conditioning
        with self._running():
            given = to_tensor(latents.data, self._loader.device, self.dtype)
            values = self.decode(given, prompt)[0]
        yield self.item(values, prompt, latents.preview_index)

    def item(self, values: Tensor, prompt: Prompt, preview_index: int | None) -> Image | Video:
        """Return the output item of a picture; default: an `Image`."""
        return Image(to_pixels(values), preview_index)


def channel_statistics(config: Any, num_axes: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of a VAE's latents by channel, ``[1, channels, 1, ...]``.

    Args:
        num_axes: axes of the latents after the channels.
        like: tensor of the wanted type, on the wanted device.
    """
    shape = (1, -1, *[1] * num_axes)
    mean, std = (
        torch.tensor(values).view(shape).to(like)
        for values in (config.latents_mean, config.latents_std)
    )
    return mean, std
