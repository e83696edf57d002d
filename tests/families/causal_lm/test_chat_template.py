"""Templates of strangers: where they are found, what they may do, and what they may not."""

import json
from pathlib import Path

import pytest

from antiphon.contracts.chat_types import Message
from antiphon.errors import InvalidRequestError, ModelLoadError
from antiphon.families.causal_lm.chat_template import ChatMarkup, load_chat_markup

HELLO = [Message("user", "Hello")]
BRIEF = [Message("system", "Be brief"), *HELLO]


def markup(source: str, **specials: str) -> ChatMarkup:
    return ChatMarkup(source, specials, Path("template"))


def test_it_has_what_transformers_gives_templates() -> None:
    source = (
        "{{ bos_token }}\n"
        "{%- for message in messages %}\n"
        "    {% if message['role'] == 'system' %}\n"
        "{% continue %}\n"
        "    {% endif %}\n"
        "{% generation %}{{ message.content | tojson }}{% endgeneration %}\n"
        "{%- endfor %}"
        "{% if add_generation_prompt and not tools %}{{ strftime_now('%Y')[:1] }}{% endif %}"
    )
    assert markup(source, bos_token="<s>").render(BRIEF) == '<s>"Hello"2'


def test_variables_of_a_request_are_told_and_replace_nothing_of_ours() -> None:
    source = (
        "{{ messages[0].content }}{{ bos_token }}"
        "{% if enable_thinking is defined and enable_thinking is false %}"
        "<think></think>{% else %}<think>{% endif %}"
    )
    found = markup(source, bos_token="<s>")
    assert found.thinks
    assert found.render(HELLO) == "Hello<s><think>"
    variables = {"enable_thinking": False, "bos_token": "x", "messages": ()}
    assert found.render(HELLO, variables) == "Hello<s><think></think>"
    assert not markup("{{ messages[0].content }}").thinks


def test_what_a_template_refuses_is_the_requests_fault() -> None:
    source = "{% if messages[0].role == 'system' %}{{ raise_exception('No system') }}{% endif %}Hi"
    found = markup(source)
    assert found.render(HELLO) == "Hi"
    with pytest.raises(InvalidRequestError, match="No system") as refused:
        found.render(BRIEF)
    assert refused.value.param == "messages"


@pytest.mark.parametrize(
    "source",
    [
        "{% if messages[1] %}{{ messages[1].content + 1 }}{% endif %}",
        "{{ 1 // (2 - messages|length) }}",
    ],
)
def test_what_a_template_cannot_do_is_refused_too(source: str) -> None:
    with pytest.raises(InvalidRequestError, match="cannot render"):
        markup(source).render(BRIEF)


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ raise_exception.__globals__['os'] }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{% for i in range(10000000) %}x{% endfor %}",
        "{% if %}",
    ],
)
def test_a_template_that_reaches_out_is_refused_when_it_is_loaded(source: str) -> None:
    with pytest.raises(ModelLoadError, match="chat template cannot be used"):
        markup(source)


def test_a_template_is_found_in_any_of_its_places(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="no chat template"):
        load_chat_markup(tmp_path)

    def write(name: str, content: object) -> None:
        (tmp_path / name).write_text(json.dumps(content))

    write("chat_template.json", {"chat_template": "processor"})
    assert load_chat_markup(tmp_path).render(HELLO) == "processor"
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "named"}]
    write("tokenizer_config.json", {"chat_template": named})
    assert load_chat_markup(tmp_path).render(HELLO) == "named"
    end = {"content": "</s>", "special": True}
    write("tokenizer_config.json", {"chat_template": "plain {{ eos_token }}", "eos_token": end})
    assert load_chat_markup(tmp_path).render(HELLO) == "plain </s>"
    (tmp_path / "chat_template.jinja").write_text("own {{ messages[0].content }}")
    assert load_chat_markup(tmp_path).render(HELLO) == "own Hello"
