"""The decoder of a VAE as a stage: a generator that turns latents into a picture."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from threading import Lock

import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import Image, Video
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.diffusion.arrays import to_pixels, to_tensor
from antiphon.diffusion.components import ComponentLoader, free_memory


class VaeDecoder(ABC):
    """Base class of decoders of final and preview latents; a family defines the decoding."""

    def __init__(self, context: LoadContext) -> None:
        """Load the components.

        Raises:
            ModelLoadError: the checkpoint cannot be served.
        """
        self._loader = ComponentLoader(context)
        self._lock = Lock()
        self.load(self._loader)

    @abstractmethod
    def load(self, loader: ComponentLoader) -> None:
        """Load the components that this stage needs."""

    @property
    def dtype(self) -> torch.dtype:
        """Element type of the computation; default: that of the settings."""
        return self._loader.dtype

    @abstractmethod
    def decode(self, latents: Tensor, prompt: Prompt) -> Tensor:
        """Decode latents; called in inference mode, in one thread.

        Args:
            latents: latents from the denoiser, on the stage's device and of its element type.
            prompt: prompt of the request.

        Returns:
            Values in about [-1, 1], shape ``[1, channels, height, width]``, of a video
            ``[1, channels, num_frames, height, width]``.
        """

    def generate(self, prompt: Prompt) -> Generator[Image | Video, None, None]:
        """Yield the picture of the latents that are the prompt's conditioning."""
        latents: Latents = prompt.conditioning
        with self._lock, self._loader.accelerator.resident(), torch.inference_mode():
            given = to_tensor(latents.data, self._loader.device, self.dtype)
            values = self.decode(given, prompt)[0]
        yield self.item(values, prompt, latents.preview_index)

    def item(self, values: Tensor, prompt: Prompt, preview_index: int | None) -> Image | Video:
        """Return the output item of a picture; default: an `Image`."""
        return Image(to_pixels(values), preview_index)

    def close(self) -> None:
        """Free the components."""
        device = self._loader.device
        self._loader.accelerator.close()
        self.__dict__.clear()
        free_memory(device)
