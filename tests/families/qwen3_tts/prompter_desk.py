"""A prompter with shorthands, and voices that are prepared already."""

from pathlib import Path
from typing import Any

import numpy as np

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Sampling, SpeechRequest, Voice
from antiphon.families.qwen3_tts.config import Qwen3TTSConfig
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.prompt import Qwen3TTSPrompter
from antiphon.families.qwen3_tts.prompt_layout import NOTHING, Column, Qwen3TTSPrompt
from antiphon.families.qwen3_tts.tokenizer import load_tokenizer
from tests.families.qwen3_tts.random_checkpoint import FEW_GROUPS

TEXT = "Well, hello there."


def prepared(num_frames: int = 5, text: str | None = None) -> PreparedVoice:
    rng = np.random.default_rng(num_frames)
    return PreparedVoice(
        name="Ann",
        family="qwen3_tts",
        ref_text=text,
        speaker_embedding=rng.normal(size=64).astype(np.float32),
        ref_codes=rng.integers(0, 2048, (num_frames, FEW_GROUPS)),
    )


RECORDING = np.zeros(4, np.float32)


class Desk:
    def __init__(self, path: Path) -> None:
        self.config: Qwen3TTSConfig = load_config(path)
        self.prompter = Qwen3TTSPrompter(LoadContext(path))
        self.encode = load_tokenizer(path)

    def voice(self, name: str | None) -> Voice:
        voices = self.prompter.capabilities.voices
        return next((each for each in voices if each.id == name), voices[0])

    def build(self, text: str = TEXT, *, voice: str | None = None, **fields: Any) -> Prompt:
        sampling = fields.pop("sampling", Sampling())
        known = {name: fields.pop(name, None) for name in ("language", "instructions")}
        request = SpeechRequest(text, sampling=sampling, options=fields, **known)
        return self.prompter.build(request, self.voice(voice), seed=1)

    def data(self, text: str = TEXT, **fields: Any) -> Qwen3TTSPrompt:
        data = self.build(text, **fields).data
        assert isinstance(data, Qwen3TTSPrompt)
        return data

    @property
    def role(self) -> list[Column]:
        ids = (self.config.tokens.im_start, *self.encode("assistant\n"))
        assert len(ids) == 3
        return [(id, NOTHING) for id in ids]

    def row(self, *codec: int) -> list[Column]:
        tokens = self.config.tokens
        beside = [tokens.tts_pad] * (len(codec) - 1) + [tokens.tts_bos]
        return list(zip(beside, codec, strict=True))
