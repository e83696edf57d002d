"""Chat prompts in the official format, whose last turn is to be generated."""

from dataclasses import replace

from antiphon.contracts.chat import ChatCapabilities, answer_limits, complete_sampling
from antiphon.contracts.chat_types import ChatRequest, Message
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.sampling import NEUTRAL_SAMPLING
from antiphon.families.kit.token_decoder import TokenDecoder
from antiphon.families.mimo_audio.config import MAX_POSITIONS, load_config
from antiphon.families.mimo_audio.options import CODES
from antiphon.families.mimo_audio.prompt import MiMoAudioPrompt, text_groups
from antiphon.families.mimo_audio.text_tokenizer import IM_END, IM_START, load_text_tokenizer

_THOUGHT_BEGIN, _NO_THOUGHTS = "<think>\n", "<think>\n\n</think>\n"
_SAMPLE = ChatRequest((Message("user", "Hello"),), max_tokens=8)
_SAMPLING = replace(NEUTRAL_SAMPLING, temperature=0.4, top_p=0.95)
"""Sampling of text answers to text in the official program."""


class MiMoChatPrompter:
    """An `antiphon.contracts.chat.ChatPrompter`; its answers are not decoded to audio."""

    def __init__(self, context: LoadContext) -> None:
        """Load a checkpoint's configuration and tokenizer; raises ModelLoadError."""
        self._config = load_config(context.checkpoint)
        self._tokenizer = load_text_tokenizer(context.checkpoint, self._config.vocab_size)
        self.capabilities = ChatCapabilities(
            sample_request=_SAMPLE,
            sampling=_SAMPLING,
            max_positions=MAX_POSITIONS,
            vocab_size=self._config.vocab_size,
            logprobs=False,
            thinks=True,
        )

    def build(self, request: ChatRequest, seed: int) -> Prompt:
        """Build the prompt of an answer; raises InvalidRequestError.

        ``enable_thinking`` of ``chat_template_kwargs`` enables thoughts before the answer.
        """
        encode, text = self._tokenizer.encode, self._tokenizer.encode_text
        ids: list[int] = []
        for each in request.messages:
            ids += encode([IM_START, f"{each.role}\n"])
            ids += text(each.content) + encode([IM_END, "\n"])
        thinks = bool(request.template_kwargs.get("enable_thinking"))
        ids += encode([IM_START, "assistant\n", _THOUGHT_BEGIN if thinks else _NO_THOUGHTS])
        writing = complete_sampling(request, self.capabilities)
        return Prompt(
            data=MiMoAudioPrompt(text_groups(self._config, ids), CODES, writing),
            num_tokens=len(ids),
            seed=seed,
            sampling=answer_limits(request, len(ids), MAX_POSITIONS),
            num_positions=len(ids) - 1,
            position_keys=tuple(ids[:-1]),
            is_decoded=False,
        )

    def in_thought(self, prompt: Prompt) -> bool:
        """Return whether a prompt ends within thoughts."""
        assert isinstance(prompt.data, MiMoAudioPrompt)
        begun = self._tokenizer.encode([_THOUGHT_BEGIN])
        ids: list[int] = prompt.data.groups[-len(begun) :, 0].tolist()
        return ids == begun

    def detokenizer(self) -> TokenDecoder:
        return TokenDecoder(self._tokenizer)

    def token_bytes(self, token: int) -> bytes:
        return self._tokenizer.token_bytes(token)
