"""Base of models of mixed prompts."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.prompt import Prompt
from antiphon.engine.model_runner.ar_model import ARModel, Codes, PromptSpan
from antiphon.families.kit.mixed.prompt import FRAME, MixedPrompt
from antiphon.nn.device_writes import upload

PromptT = TypeVar("PromptT", bound=MixedPrompt)


class MixedPromptModel(ARModel[PromptT]):
    """Model whose requests are mixed prompts, continued by the frames generated so far."""

    def open(self, prompt: Prompt, frames: NDArray[Any]) -> PromptT:
        data: PromptT = prompt.data
        return data.followed_by(frames)

    def observe(
        self, requests: Sequence[PromptT], frames: Codes, numbers: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        return numbers >= np.array([each.max_frames for each in requests], np.int64)

    def embed_prompts(self, spans: Sequence[PromptSpan[PromptT]]) -> Tensor:
        ids = np.concatenate([each.request.ids[each.start : each.end] for each in spans])
        states = self.embed_text(upload(np.maximum(ids, 0), self._device))
        held = [each.request.frames_between(each.start, each.end) for each in spans]
        frames = np.concatenate(held)
        if len(frames):
            places = upload(np.flatnonzero(ids == FRAME), self._device)
            states[places] = self.embed_frames(upload(frames, self._device))
        return states

    @abstractmethod
    def embed_text(self, ids: Tensor) -> Tensor:
        """Return the inputs of ids, int64 ``[n]``: ``[n, width]``, which are then written to."""

    @abstractmethod
    def embed_frames(self, frames: Tensor) -> Tensor:
        """Return the inputs of a prompt's frames, ``[n, frame_size]``: ``[n, width]``."""
