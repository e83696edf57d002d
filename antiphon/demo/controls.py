"""The demonstration's controls: a tab for each thing that the models of a server can do."""

import json
from collections.abc import Sequence
from typing import Any

import gradio as gr

from antiphon.demo.speech_models import ServedVoice

_TEXT = "The quick brown fox jumps over the lazy dog, and then it rests in the shade of a tree."
_DESIGN = "A warm, low voice of an elderly man, who speaks slowly and smiles."
_MEASURED = (
    ("first", "First audio"),
    ("heard", "Playback began after"),
    ("factor", "Real-time factor"),
    ("audio", "Played"),
    ("gaps", "Gaps"),
)


def build(models: Sequence[ServedVoice]) -> Any:
    """Return the page, `gradio.Blocks` whose buttons call ``static/demo.js``."""
    with gr.Blocks(title="Antiphon", analytics_enabled=False) as blocks:
        gr.Markdown("# Antiphon\nSpeech is played while it is made.")
        with gr.Tabs():
            for model in models:
                name = f" · {model.id}" if len(models) > 1 else ""
                for title, fill in _tabs(model):
                    with gr.Tab(title + name):
                        _speaking(model, fill(model))
        gr.HTML(_measured())
    return blocks


def _tabs(model: ServedVoice) -> list[tuple[str, Any]]:
    """Return titles of tabs, and what fills them."""
    tabs: list[tuple[str, Any]] = []
    if model.voice_design:
        tabs.append(("Voice design", _design))
    if model.cloning:
        tabs.append(("Cloning", _clone))
    return tabs or [("Voices", _choose)]


def _choose(model: ServedVoice) -> dict[str, gr.components.Component]:
    """Controls of who speaks, of those that a model brings."""
    with gr.Row():
        voice = gr.Dropdown(list(model.voices), value=model.voices[0][1], label="Voice")
        controls: dict[str, gr.components.Component] = {"voice": voice, **_language(model)}
    if model.instructions:
        controls["instructions"] = gr.Textbox(label="Instructions", placeholder="Very happy.")
    return controls


def _design(model: ServedVoice) -> dict[str, gr.components.Component]:
    """Controls that describe a voice."""
    described = gr.Textbox(_DESIGN, label="The voice", lines=2)
    return {"instructions": described, **_language(model)}


def _clone(model: ServedVoice) -> dict[str, gr.components.Component]:
    """Controls that take a voice from a recording."""
    with gr.Row():
        reference = gr.Audio(
            sources=["upload", "microphone"], type="filepath", format="wav", label="The voice"
        )
        with gr.Column():
            words = gr.Textbox(
                label="Transcript of the recording",
                placeholder="Left empty: its sound alone",
                lines=2,
            )
            language = _language(model)
    return {"reference": reference, "referenceText": words, **language}


def _language(model: ServedVoice) -> dict[str, gr.components.Component]:
    if not model.languages:
        return {}
    choices = [("as the text", ""), *((each.capitalize(), each) for each in model.languages)]
    return {"language": gr.Dropdown(choices, value="", label="Language")}


def _speaking(model: ServedVoice, controls: dict[str, gr.components.Component]) -> None:
    """Add text and buttons below controls."""
    text = gr.Textbox(_TEXT, label="Text", lines=4, elem_classes="spoken-text")
    with gr.Row():
        streamed = gr.Checkbox(label="Send the text word by word, as a language model writes it")
        words_per_s = gr.Slider(1, 20, value=4, step=1, label="Words a second")
    with gr.Row():
        speak = gr.Button("Speak", variant="primary", elem_classes="speak")
        stop = gr.Button("Stop", elem_classes="stop")
    controls |= {"text": text, "isStreamed": streamed, "wordsPerS": words_per_s}
    fixed = json.dumps({"model": model.id, "sampleRateHz": model.sample_rate_hz})
    call = (
        f"(...values) => {{ const names = {json.dumps(list(controls))};"
        " const given = Object.fromEntries(names.map((name, index) => [name, values[index]]));"
        f" void antiphonDemo.speak({{...{fixed}, ...given}}); return []; }}"
    )
    speak.click(None, list(controls.values()), js=call)
    stop.click(None, js="() => { antiphonDemo.stop(); return []; }")


def _measured() -> str:
    rows = "".join(
        f'<div><dt>{title}</dt><dd id="measured-{name}">–</dd></div>' for name, title in _MEASURED
    )
    return (
        '<section id="measured" data-state="idle" aria-live="polite">'
        f'<p id="measured-state">Ready</p><dl>{rows}</dl><p id="measured-text"></p></section>'
    )
