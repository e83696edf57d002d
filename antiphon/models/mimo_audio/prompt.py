"""A request becomes a prompt: turns of a chat, of which the last is to be spoken.

The official texts are used, but for the sentence that asks for speech: where the official code
draws one of ten, it is always the same here, so that a request repeats.
"""

from antiphon.errors import InvalidRequestError
from antiphon.models.base import Prompt
from antiphon.models.mimo_audio.config import MAX_POSITIONS
from antiphon.models.mimo_audio.config_reader import load_config, load_tokenizer_config
from antiphon.models.mimo_audio.options import MAX_FACTOR, MiMoAudioOptions
from antiphon.models.mimo_audio.request import MiMoAudioPrompt, position_keys, text_groups
from antiphon.models.mimo_audio.sampling import TEXT, code_sampling
from antiphon.models.mimo_audio.text_tokenizer import IM_END, IM_START, load_text_tokenizer
from antiphon.models.mimo_audio.tokenizer_path import tokenizer_path
from antiphon.models.options import read_options
from antiphon.models.spec import LoadContext, SpeechCapabilities
from antiphon.types import Sampling, SpeechRequest, Voice

_MAX_SEGMENT_CHARACTERS = 300
_MAX_INSTRUCTIONS_CHARACTERS = 2000
_MIN_ROOM = 64  # groups that must be left to speak
_ASK = {
    "en": "Please convert this text to speech",
    "zh": "请将这段文字转换为语音",
}
_STYLE = "你需要根据指定的风格指令和文本内容来生成语音。"
_VOICE = Voice(id="default", name="Default", description="The voice that the model finds fitting.")


class MiMoAudioPrompter:
    """An `antiphon.models.base.Prompter`; may be called from any thread."""

    def __init__(self, context: LoadContext) -> None:
        """Load a checkpoint's configuration and tokenizer.

        Raises:
            ModelLoadError: a file is missing or wrong, or the audio tokenizer is not there.
        """
        assert context.path is not None, "the family needs a checkpoint"
        self._config = load_config(context.path)
        self._tokenizer = load_text_tokenizer(context.path, self._config.vocab_size)
        audio = load_tokenizer_config(tokenizer_path(context.path), self._config)
        self._capabilities = SpeechCapabilities(
            sample_rate_hz=audio.sample_rate_hz,
            voices=(_VOICE,),
            instructions=True,
            max_segment_characters=_MAX_SEGMENT_CHARACTERS,
        )

    @property
    def capabilities(self) -> SpeechCapabilities:
        return self._capabilities

    def build(self, request: SpeechRequest, voice: Voice, seed: int) -> Prompt:
        """Build the prompt of one segment.

        Raises:
            InvalidRequestError: a sampling parameter or option is outside what it may be.
        """
        options = read_options(MiMoAudioOptions, request.options)
        _check_sampling(request.sampling)
        ids = self._tokenizer.encode(_parts(request.input, _instructions(request)))
        groups = text_groups(self._config, ids)
        if len(groups) > MAX_POSITIONS - _MIN_ROOM:
            raise InvalidRequestError(
                f"Invalid 'input': its prompt takes {len(groups)} positions; at most"
                f" {MAX_POSITIONS - _MIN_ROOM} are allowed.",
                param="input",
            )
        return Prompt(
            data=MiMoAudioPrompt(groups, code_sampling(request.sampling, options)),
            num_tokens=len(groups),
            seed=seed,
            sampling=request.sampling.with_defaults(TEXT),
            num_positions=len(groups) - 1,
            position_keys=position_keys(groups[:-1], self._tokenizer.empty_id),
        )


def _parts(text: str, instructions: str) -> list[str]:
    """Return the turns: with instructions the model plans before it speaks."""
    text = text.strip()
    if text.isupper() or text.islower():
        text = text.capitalize()
    language = "zh" if any("\u4e00" <= letter <= "\u9fff" for letter in text) else "en"
    asked = f"user\n{_ASK[language]}: {text}"
    if not instructions:
        return [IM_START, asked, IM_END, "\n", IM_START, "assistant\n", "<|sostm|>"]
    return [
        *(IM_START, "system\n", _STYLE, IM_END, "\n"),
        *(IM_START, f"{asked}({instructions})", IM_END, "\n"),
        *(IM_START, "assistant\n<think>\n"),
    ]


def _instructions(request: SpeechRequest) -> str:
    said = (request.instructions or "").strip()
    if len(said) > _MAX_INSTRUCTIONS_CHARACTERS:
        raise InvalidRequestError(
            f"Invalid 'instructions': at most {_MAX_INSTRUCTIONS_CHARACTERS} characters are"
            " allowed.",
            param="instructions",
        )
    return said


def _check_sampling(sampling: Sampling) -> None:
    temperature, penalty = sampling.temperature, sampling.repetition_penalty
    if temperature is not None and not 0 <= temperature <= MAX_FACTOR:
        raise InvalidRequestError(
            f"Invalid 'temperature': it must be 0 to {MAX_FACTOR:g}.", param="temperature"
        )
    if penalty not in (None, 1.0):
        raise InvalidRequestError(
            "Invalid 'repetition_penalty': this model draws without one; leave it out or send 1.",
            param="repetition_penalty",
        )
