"""Speech prompts in the official chat format, whose last turn is to be spoken.

The official texts are used, except that the sentence that asks for speech is fixed: the official
code draws one of ten, which would make requests irreproducible.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.chat_types import ChatSampling
from antiphon.contracts.family import LoadContext, SpeechCapabilities
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.sampling import SamplingRanges
from antiphon.contracts.types import Samples, Sampling, SpeechRequest, Voice
from antiphon.contracts.well_formed import read_options
from antiphon.errors import InvalidRequestError
from antiphon.families.kit.cloned_voices import CODES, CloningPrompter
from antiphon.families.kit.mixed.prompt import frame_key
from antiphon.families.kit.speech_budget import check_instructions, check_prompt_length
from antiphon.families.mimo_audio.config import (
    MAX_POSITIONS,
    MiMoAudioConfig,
    load_config,
    load_tokenizer_config,
    tokenizer_path,
)
from antiphon.families.mimo_audio.options import FAMILY_NAME, TEXT, MiMoAudioOptions, code_sampling
from antiphon.families.mimo_audio.text_tokenizer import IM_END, IM_START, load_text_tokenizer


@dataclass(frozen=True, slots=True, eq=False)
class MiMoAudioPrompt:
    """Input of the language model.

    Attributes:
        groups: text tokens and groups of codes, int64 ``[num_groups, frame_size]``. The first step
            reads the last one. Those generated follow if a request resumes after them.
        code_sampling: complete sampling parameters of codes.
        writing: complete sampling parameters of a text answer; ``None``: the answer is spoken.
    """

    groups: NDArray[np.int64]
    code_sampling: Sampling
    writing: ChatSampling | None = None


def text_groups(config: MiMoAudioConfig, ids: list[int]) -> NDArray[np.int64]:
    """Return text tokens as groups without audio."""
    groups = np.empty((len(ids), config.frame_size), np.int64)
    groups[:, 0], groups[:, 1:] = ids, config.empty_group
    return groups


def audio_groups(
    config: MiMoAudioConfig, codes: NDArray[np.int64], empty_id: int
) -> NDArray[np.int64]:
    """Return codes, ``[num_frames, num_channels]``, as groups, padded with the last frame."""
    missing = -len(codes) % config.group_frames
    padded = np.concatenate((codes, np.repeat(codes[-1:], missing, axis=0)))
    spoken = padded.reshape(len(padded) // config.group_frames, -1)
    return np.pad(spoken, ((0, 0), (1, 0)), constant_values=empty_id)


def position_keys(groups: NDArray[np.int64], empty_id: int) -> list[int]:
    """Return a key for each group that identifies its contents."""
    return [frame_key(group) if group[0] == empty_id else int(group[0]) for group in groups]


_MAX_SEGMENT_CHARACTERS = 300
_MIN_ROOM = 64  # groups that a prompt must leave for speech
_USER = "user\n"
_ASK = {"en": "Please convert this text to speech", "zh": "请将这段文字转换为语音"}
_STYLE = "你需要根据指定的风格指令和文本内容来生成语音。"
_TIMBRE = "你需要根据指定的风格指令和文本内容来生成和语音prompt具有相同音色的语音。你的音色应该是："
_VOICE = Voice(id="default", name="Default", description="The voice that the model finds fitting.")


class MiMoAudioPrompter(CloningPrompter):
    """Builds prompts and prepares voices; may be called from any thread."""

    def __init__(self, context: LoadContext) -> None:
        """Load a checkpoint's configuration and tokenizer; raises ModelLoadError."""
        self._config = load_config(context.checkpoint)
        self._tokenizer = load_text_tokenizer(context.checkpoint, self._config.vocab_size)
        audio = load_tokenizer_config(tokenizer_path(context.checkpoint), self._config)
        capabilities = SpeechCapabilities(
            sample_rate_hz=audio.sample_rate_hz,
            voices=(_VOICE,),
            instructions=True,
            cloning=True,
            draws_end=True,
            needs_encoder=True,
            voice_fields=("ref_audio",),
            sampling=SamplingRanges(takes_penalty=False),
            max_segment_characters=_MAX_SEGMENT_CHARACTERS,
        )
        super().__init__(capabilities, FAMILY_NAME)

    def prepare_voice(
        self, samples: Samples, *, name: str, ref_text: str | None = None
    ) -> PreparedVoice:
        """Prepare a voice; see `CloningPrompter`. The transcript is not needed."""
        return super().prepare_voice(samples, name=name)

    def build(self, request: SpeechRequest, voice: Voice, seed: int) -> Prompt:
        """Build the prompt of one segment; raises InvalidRequestError."""
        options = read_options(MiMoAudioOptions, request.options)
        groups, num_common = self._groups(request, options)
        check_prompt_length(len(groups), MAX_POSITIONS - _MIN_ROOM)
        return Prompt(
            data=MiMoAudioPrompt(groups, code_sampling(request.sampling, options)),
            num_tokens=len(groups),
            seed=seed,
            sampling=request.sampling.with_defaults(TEXT),
            num_positions=len(groups) - 1,
            position_keys=position_keys(groups[:-1], self._tokenizer.empty_id),
            num_common_positions=num_common,
        )

    def _groups(
        self, request: SpeechRequest, options: MiMoAudioOptions
    ) -> tuple[NDArray[np.int64], int]:
        """Return the input groups, voice first, and the number of groups before the text."""
        config, encode = self._config, self._tokenizer.encode
        instructions = check_instructions((request.instructions or "").strip())
        if options.ref_audio is None:
            parts = _parts(request.input, instructions)
            return text_groups(config, encode(parts)), len(encode(_before_text(parts)))
        codes = self._codes(options.ref_audio)
        before = encode([IM_START, "system\n", _TIMBRE, "<|sosp|>"])
        parts = ["<|eosp|>", *_end(request.input, instructions)]
        spoken = audio_groups(config, codes, self._tokenizer.empty_id)
        groups = (text_groups(config, before), spoken, text_groups(config, encode(parts)))
        num_common = len(before) + len(spoken) + len(encode(_before_text(parts)))
        return np.concatenate(groups), num_common

    def _codes(self, given: NDArray[np.float32] | PreparedVoice) -> NDArray[np.int64]:
        if not isinstance(given, PreparedVoice):
            return self.features(given, [CODES])[CODES]
        config, codes = self._config, given.ref_codes
        if given.family != FAMILY_NAME or codes is None:
            raise InvalidRequestError(
                f"Invalid 'ref_audio': the voice '{given.name}' was prepared for"
                f" '{given.family}'; this model needs one for '{FAMILY_NAME}'.",
                param="ref_audio",
            )
        if codes.shape[1] != config.num_channels or (codes >= config.empty_codes).any():
            raise InvalidRequestError(
                f"Invalid 'ref_audio': the voice '{given.name}' is not of a checkpoint like this.",
                param="ref_audio",
            )
        return codes


def _parts(text: str, instructions: str) -> list[str]:
    """Return the turns; with instructions the model plans before it speaks."""
    if instructions:
        return [IM_START, "system\n", _STYLE, *_end(text, instructions)]
    turn = [IM_START, _asked(text), IM_END, "\n"]
    return [*turn, IM_START, "assistant\n", "<|sostm|>"]


def _end(text: str, instructions: str) -> list[str]:
    """Return the text after the style or voice requested in the system turn."""
    style = f"({instructions})" if instructions else ""
    turn = [IM_END, "\n", IM_START, f"{_asked(text)}{style}", IM_END, "\n"]
    return [*turn, IM_START, "assistant\n<think>\n"]


def _before_text(parts: Sequence[str]) -> list[str]:
    """Return the parts before the requested text, including the beginning of its own part."""
    index = next(number for number, part in enumerate(parts) if part.startswith(_USER))
    asks, colon, _ = parts[index].partition(":")
    return [*parts[:index], asks + colon]


def _asked(text: str) -> str:
    """Return the user turn; text in a single case is capitalised, as in official prompts."""
    text = text.strip()
    if text.isupper() or text.islower():
        text = text.capitalize()
    language = "zh" if any("\u4e00" <= letter <= "\u9fff" for letter in text) else "en"
    return f"{_USER}{_ASK[language]}: {text}"
