"""A conversation in the terminal: answers go to stdout as they are written, all else to stderr."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import TypeAlias

import typer
from rich.console import Console

from antiphon.cli.chat_flags import ChatFlags
from antiphon.cli.remote_tasks import remote_chat
from antiphon.cli.speak import ResultSource, loaded
from antiphon.contracts.chat_types import ChatEvent, ChatRequest, ChatSampling, Message, TextDelta
from antiphon.contracts.types import Ended
from antiphon.errors import InvalidRequestError

Stream: TypeAlias = Callable[[ChatRequest], Generator[ChatEvent, None, None]]

_EXITS = ("/exit", "/quit")
_CLEAR = "/clear"
_HELP = f"{_CLEAR} forgets the conversation, {_EXITS[0]} ends; Ctrl-C stops an answer."


def talk(flags: ChatFlags) -> None:
    """Load a model or reach a server; answer one message, or all typed; raises AntiphonError."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with ExitStack() as stack:
        server = ResultSource(flags.model, flags.url, flags.api_key).server
        stream: Stream = (
            stack.enter_context(loaded(flags.model, "text", console)).chat_stream
            if server is None
            else partial(remote_chat, server)
        )
        conversation = _Conversation(stream, flags, console)
        if flags.text is not None:
            conversation.answer(sys.stdin.read().strip() if flags.text == "-" else flags.text)
            return
        if sys.stdin.isatty():
            with suppress(ImportError):
                import readline  # noqa: F401  # which gives `input` a history and editing
            console.print(_HELP, style="dim")
        while (text := _read()) is not None:
            if text == _CLEAR:
                conversation.clear()
            elif text:
                try:
                    conversation.answer(text)
                except InvalidRequestError as error:
                    console.print(error.message, style="red", markup=False)


class _Conversation:
    """Messages of the conversation so far, without those that could not be answered."""

    def __init__(self, stream: Stream, flags: ChatFlags, console: Console) -> None:
        self._stream = stream
        self._flags = flags
        self._console = console
        self._messages: list[Message] = []

    def clear(self) -> None:
        self._messages.clear()

    def answer(self, text: str) -> None:
        """Answer a message on stdout; Ctrl-C stops the answer and keeps the text so far."""
        message = Message("user", text)
        written: list[str] = []
        began_s = time.perf_counter()
        first_s = 0.0
        summary = "stopped"
        with (
            suppress(KeyboardInterrupt),
            closing(self._stream(self._request(message))) as events,
        ):
            for event in events:
                if isinstance(event, TextDelta):
                    first_s = first_s or time.perf_counter() - began_s
                    written.append(event.text)
                    typer.echo(_printable(event.text), nl=False)
                else:
                    summary = _summary(event, first_s, time.perf_counter() - began_s)
        typer.echo()
        self._messages += message, Message("assistant", "".join(written))
        self._console.print(summary, style="dim", markup=False)

    def _request(self, message: Message) -> ChatRequest:
        flags = self._flags
        system = () if flags.system is None else (Message("system", flags.system),)
        return ChatRequest(
            (*system, *self._messages, message),
            model=None if flags.url is None else flags.model,
            max_tokens=flags.max_tokens,
            seed=flags.seed,
            sampling=ChatSampling(temperature=flags.temperature, top_p=flags.top_p),
        )


def _read() -> str | None:
    while True:
        try:
            text = input("> " if sys.stdin.isatty() else "").strip()
        except KeyboardInterrupt:
            typer.echo()
            continue
        except EOFError:
            return None
        return None if text in _EXITS else text


def _printable(text: str) -> str:
    """Return a text without terminal control sequences."""
    return "".join(each for each in text if each.isprintable() or each in "\n\t")


def _summary(ended: Ended, first_s: float, elapsed_s: float) -> str:
    num_tokens = ended.usage.output_tokens
    rate = f", {(num_tokens - 1) / (elapsed_s - first_s):.0f} a second" if num_tokens > 1 else ""
    cut = "; it is cut off at its limit" if ended.reason == "length" else ""
    return f"{num_tokens} tokens, the first after {first_s * 1000:.0f} ms{rate}{cut}"
