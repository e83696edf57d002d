"""An answer that is spoken while it is written: a chat's text goes piece by piece into speech."""

import asyncio
import sys
from abc import ABC, abstractmethod
from contextlib import aclosing

from antiphon.contracts.chat_types import ChatStream, TextDelta
from antiphon.contracts.types import AudioChunk, Ended, SpeechRequest, SpeechStream
from antiphon.errors import UnspeakableTextError
from antiphon.pipeline.chat.playback_transcript import PlaybackTranscript
from antiphon.pipeline.markdown_to_speech.text import SpeakableText
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.synthesis import Synthesis
from antiphon.pipeline.speech.text_stream import Utterance


class SpokenChat(ABC):
    """The two streams of one answer, which are read at the same time.

    The caller reads `text` and `audio`, and closes both; that stops the language model
    and the one that speaks.

    Attributes:
        transcript: Alignment of the text with the audio.
    """

    def __init__(self, chat: ChatStream, synthesis: Synthesis) -> None:
        """Begin to speak an answer.

        Args:
            chat: Written answer; closed with `text`.
        """
        self._chat = chat
        self._synthesis = synthesis
        self._is_speaking = False
        self.transcript = PlaybackTranscript()

    @property
    def sample_rate_hz(self) -> int:
        return self._synthesis.sample_rate_hz

    async def text(self) -> ChatStream:
        """Yield what is written, each piece when the speaking model has it.

        Raises:
            OverloadedError: before anything is written: the audio is not admitted, or the text.
            EngineError: a model failed.
        """
        try:
            async with aclosing(self._chat) as events:
                await self._synthesis.reserve()
                async for event in events:
                    if isinstance(event, TextDelta):
                        self._write(event.text)
                    else:
                        self._stop_writing(is_complete=True)
                    yield event
        finally:
            self._stop_writing(is_complete=False)
            if not self._is_speaking:
                await self._synthesis.release()

    async def audio(self) -> SpeechStream:
        """Yield the audio, then its `Ended`; an answer without speakable text is silent.

        Raises:
            InvalidRequestError: before the first chunk: there is no such voice.
            OverloadedError: the same: too much is under way.
            EngineError: the model failed.
        """
        self._is_speaking = True
        try:
            if not await self._speaks():
                self.transcript.complete()
                yield Ended("stop")
                return
            try:
                async with aclosing(self._synthesis.events()) as events:
                    async for event in events:
                        if isinstance(event, AudioChunk):
                            self.transcript.add_audio(event.duration_s)
                        else:
                            self.transcript.complete()
                        yield event
            except UnspeakableTextError:
                self.transcript.complete()
                yield Ended("stop")
        finally:
            await self._close()

    @abstractmethod
    async def _speaks(self) -> bool:
        """Return whether there is anything to speak, as soon as that is known."""

    @abstractmethod
    def _write(self, text: str) -> None:
        """Take in more of the answer."""

    @abstractmethod
    def _stop_writing(self, *, is_complete: bool) -> None:
        """End the answer; called again, with ``is_complete`` false, when its stream is closed."""

    async def _close(self) -> None:
        await self._synthesis.close()


class TextSpokenChat(SpokenChat):
    """An answer whose text is spoken by a speech model."""

    def __init__(
        self,
        chat: ChatStream,
        speech: Speech,
        request: SpeechRequest,
        speakable: SpeakableText | None = None,
    ) -> None:
        """Begin to speak an answer; raises InvalidRequestError.

        Args:
            chat: Written answer; closed with `text`.
            request: Speech options; its text is not used.
            speakable: Rules for what is spoken of markdown; ``None``: the default settings.
        """
        synthesis = speech.open(request, is_answer=True)
        super().__init__(chat, synthesis)
        synthesis.on_segment = self.transcript.end_segment
        self._speakable = speakable or SpeakableText()
        # What bounds an answer is the room of the model that writes it, not what clients may send.
        self._utterance = Utterance(synthesis, sys.maxsize)
        self._unsaid = ""  # spaces at the beginning, which are no text by themselves
        self._has_text = False
        self._is_known = asyncio.Event()  # whether there is any text

    async def _speaks(self) -> bool:
        await self._is_known.wait()
        return self._has_text

    def _write(self, text: str) -> None:
        self._push(text, self._speakable.push(text))

    def _stop_writing(self, *, is_complete: bool) -> None:
        if is_complete:
            self._push("", self._speakable.flush())
            if self._has_text:
                self._utterance.complete()
            self._is_known.set()

    async def _close(self) -> None:
        await self._utterance.close()

    def _push(self, written: str, text: str) -> None:
        self.transcript.write(written, text)
        if not self._has_text:
            text, self._unsaid = self._unsaid + text, ""
            if not text.strip():
                self._unsaid = text
                return
            self._has_text = True
            self._is_known.set()
        if text:
            self._utterance.push(text)
