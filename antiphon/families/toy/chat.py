"""The toy's chats: it repeats the last message byte by byte, and babbles at high temperatures."""

from dataclasses import dataclass

from antiphon.contracts.chat import ChatCapabilities, answer_limits, complete_sampling
from antiphon.contracts.chat_types import ChatRequest, ChatSampling, Message
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.sampling import NEUTRAL_SAMPLING
from antiphon.families.toy.vocabulary import VOCAB_SIZE, Utf8Detokenizer, bytes_of, tokens_of

_OPENING = "You said: "
_THOUGHT = "<think>\nMessages: {}.\n</think>\n\n"
MAX_POSITIONS = 8192


@dataclass(frozen=True, slots=True)
class ToyDialogue:
    """Input of the toy's chat.

    Attributes:
        likely: tokens of the answer that it is inclined to, without its end.
    """

    read: tuple[int, ...]
    likely: tuple[int, ...]
    sampling: ChatSampling


class ToyChatPrompter:
    """Builds prompts of bytes; each message is a line that begins with its role."""

    capabilities = ChatCapabilities(
        sample_request=ChatRequest((Message("user", "ready"),), max_tokens=4),
        sampling=NEUTRAL_SAMPLING,
        max_positions=MAX_POSITIONS,
        vocab_size=VOCAB_SIZE,
        thinks=True,
    )

    def __init__(self, context: LoadContext) -> None:
        """Nothing to load."""

    def build(self, request: ChatRequest, seed: int) -> Prompt:
        """Build the prompt of an answer; raises InvalidRequestError if it does not fit."""
        answer = _OPENING + request.messages[-1].content
        if request.template_kwargs.get("enable_thinking"):
            answer = _THOUGHT.format(len(request.messages)) + answer
        lines = (f"{message.role}: {message.content}\n" for message in request.messages)
        read = tokens_of("".join(lines) + "assistant: ")
        return Prompt(
            data=ToyDialogue(
                read=read,
                likely=tokens_of(answer),
                sampling=complete_sampling(request, self.capabilities),
            ),
            num_tokens=len(read),
            seed=seed,
            sampling=answer_limits(request, len(read), MAX_POSITIONS),
            num_positions=len(read),
            position_keys=read,
        )

    def in_thought(self, prompt: Prompt) -> bool:
        return False

    def detokenizer(self) -> Utf8Detokenizer:
        return Utf8Detokenizer()

    def token_bytes(self, token: int) -> bytes:
        return bytes_of(token)
