"""A text encoder as a stage: a generator that yields embeddings by name."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from threading import Lock

import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.diffusion.arrays import to_arrays
from antiphon.diffusion.components import ComponentLoader, free_memory


class TextEncoder(ABC):
    """Base class of prompt encoders.

    Prompts are encoded one by one, so embeddings do not depend on the batch.
    """

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

    @abstractmethod
    def encode(self, prompt: Prompt) -> Mapping[str, Tensor]:
        """Return the embeddings of a prompt by name; called in inference mode, in one thread."""

    def generate(self, prompt: Prompt) -> Generator[Latents, None, None]:
        """Yield arrays by name, once."""
        yield self._encoded(prompt)

    def close(self) -> None:
        """Free the components."""
        device = self._loader.device
        self._loader.accelerator.close()
        self.__dict__.clear()
        free_memory(device)

    def _encoded(self, prompt: Prompt) -> Latents:
        with self._lock, self._loader.accelerator.resident(), torch.inference_mode():
            return Latents(to_arrays(self.encode(prompt)))
