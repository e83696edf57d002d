"""With what voice answers of chats are spoken: the model's own, or that of a model that speaks."""

from dataclasses import dataclass, field, replace
from typing import Self

from antiphon.api.schemas.speakable import Speakable
from antiphon.api.state import ServerState
from antiphon.contracts.chat_types import ChatRequest
from antiphon.contracts.types import SpeechRequest
from antiphon.errors import UnknownModelError, UnservedTaskError
from antiphon.pipeline.chat.omni_talker import ChatVoiceModel
from antiphon.pipeline.chat.spoken_chat import SpokenChat, TextSpokenChat
from antiphon.pipeline.markdown_to_speech.text import SpeakableText


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerVoice:
    """How an answer is spoken.

    Attributes:
        voice: Voice by name; ``None``: the default voice of the model that speaks.
        model: Speech model; ``None``: the chat model if it has a voice of its own, else the
            default one of those that speak.
        sample_rate_hz: Sample rate of the audio; ``None``: that of the speech model.
        speakable: Rules for what is spoken of markdown; the model's own voice speaks all of it.
    """

    voice: str | None = None
    model: str | None = None
    speed: float = 1.0
    sample_rate_hz: int | None = None
    speakable: Speakable = field(default_factory=Speakable)

    async def checked(self, chat: str | None, server: ServerState) -> Self:
        """Return the same with the model that speaks, where answers of ``chat`` can be spoken so.

        Raises:
            InvalidRequestError: they cannot; names the field and what is allowed.
        """
        if (own := self._own(chat, server)) is not None:
            own.voice(self.voice, server.settings.speech.all_voice_aliases)
            return self
        request = await server.speech.routed(self._speech_request(""))
        await server.speech.check_voice(request)
        return replace(self, model=request.model)

    def begin(self, request: ChatRequest, server: ServerState) -> SpokenChat:
        """Begin an answer; its text and audio must be read together; raises InvalidRequestError."""
        if (own := self._own(request.model, server)) is not None:
            voice = own.voice(self.voice, server.settings.speech.all_voice_aliases)
            speech_request = self._speech_request(f"{request.id}-voice", request.seed)
            return server.chats.speak(request, own, voice, speech_request)
        speech_request = self._speech_request(f"{request.id}-speech", request.seed)
        speakable = SpeakableText(self.speakable.over(server.settings.speakable))
        chat = server.chats.stream(request)
        return TextSpokenChat(chat, server.speech, speech_request, speakable)

    def _own(self, chat: str | None, server: ServerState) -> ChatVoiceModel | None:
        own = server.chats.voice(chat)
        if own is None or self.model is None:
            return own
        try:
            return own if server.chats.model(self.model).name == own.name else None
        except (UnknownModelError, UnservedTaskError):
            return None

    def _speech_request(self, id: str, seed: int | None = None) -> SpeechRequest:
        return SpeechRequest(
            "",
            voice=self.voice,
            model=self.model,
            speed=self.speed,
            sample_rate_hz=self.sample_rate_hz,
            seed=seed,
            id=id,
        )
