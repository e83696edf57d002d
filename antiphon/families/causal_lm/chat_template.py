"""Sandboxed rendering of conversations with a checkpoint's chat template.

A template is untrusted code: it may neither access Python's internals nor change its arguments.
Its environment matches that of transformers, which checkpoints are written for.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from antiphon.contracts.chat_types import Message
from antiphon.contracts.config_file import ConfigSection
from antiphon.errors import InvalidRequestError, ModelLoadError

_SPECIALS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")
_FAULTS = (TemplateError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError)
"""Exceptions that an expression in a template can raise."""


class _RefusedError(TemplateError):
    """Error raised by a template through ``raise_exception``."""


class _GenerationBlocks(Extension):
    """Renders the contents of ``{% generation %}``, which marks answers for training, unchanged."""

    tags = {"generation"}  # noqa: RUF012 (the base class declares the type)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatMarkup:
    """A compiled template; thread-safe.

    Attributes:
        thinks: whether the template supports thoughts before an answer.
    """

    def __init__(self, source: str, specials: Mapping[str, str], file: Path) -> None:
        """Compile the template and render a test conversation; raises ModelLoadError.

        Args:
            specials: special tokens that the template may name, such as ``bos_token``.
        """
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _GenerationBlocks],
        )
        environment.filters["tojson"] = _to_json
        environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
        self._specials = dict(specials)
        self.thinks = "</think>" in source
        try:
            self._template = environment.from_string(source)
            self._rendered((Message("user", "Hello"),), {})
        except _FAULTS as error:
            raise ModelLoadError(f"{file}: the chat template cannot be used: {error}") from error

    def render(
        self, messages: Sequence[Message], variables: Mapping[str, object] | None = None
    ) -> str:
        """Return the conversation as text, up to where the answer begins.

        Args:
            variables: further variables of the template, such as ``enable_thinking``; they do not
                override the standard ones.

        Raises:
            InvalidRequestError: the template does not support the conversation.
        """
        try:
            return self._rendered(messages, variables or {})
        except _RefusedError as error:
            message = f"The model's chat template refuses these messages: {error}"
        except _FAULTS as error:
            message = f"The model's chat template cannot render these messages: {error}"
        raise InvalidRequestError(message, param="messages")

    def _rendered(self, messages: Sequence[Message], variables: Mapping[str, object]) -> str:
        conversation = [{"role": each.role, "content": each.content} for each in messages]
        given = {
            "messages": conversation,
            "add_generation_prompt": True,
            "tools": None,
            "documents": None,
            **self._specials,
        }
        return self._template.render({**variables, **given})


def load_chat_markup(path: Path) -> ChatMarkup:
    """Read the template of a checkpoint's directory; raises ModelLoadError."""
    file = path / "tokenizer_config.json"
    section = ConfigSection.read(file) if file.is_file() else ConfigSection(file, "", {})
    specials = {}
    for name in _SPECIALS:
        value = section.values.get(name)
        specials[name] = value.get("content") if isinstance(value, dict) else value
    found = {name: value for name, value in specials.items() if isinstance(value, str)}
    source_file, source = _source(path, section)
    if source is None:
        raise ModelLoadError(
            f"{path}: has no chat template, neither chat_template.jinja nor 'chat_template' in"
            " tokenizer_config.json: it is a model that continues text, and is not made for chats"
        )
    return ChatMarkup(source, found, source_file)


def _source(path: Path, tokenizer: ConfigSection) -> tuple[Path, str | None]:
    """Return the template and its file; a separate file takes precedence."""
    own = path / "chat_template.jinja"
    if own.is_file():
        try:
            return own, own.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ModelLoadError(f"{own}: cannot be read: {error}") from error
    processor = path / "chat_template.json"
    sections = [tokenizer]
    if processor.is_file():
        sections.append(ConfigSection.read(processor))
    for section in sections:
        value = section.values.get("chat_template")
        if isinstance(value, list):  # several named templates
            value = next((each["template"] for each in value if each["name"] == "default"), None)
        if isinstance(value, str):
            return section.file, value
    return tokenizer.file, None


def _refuse(message: str) -> NoReturn:
    raise _RefusedError(message)


def _now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
