"""The demonstration's controls: a tab for each thing that the models of a server can do."""

import json
from collections.abc import Sequence
from typing import Any

import gradio as gr

from antiphon.demo.speech_models import ServedVoice

_TEXT = "The quick brown fox jumps over the lazy dog, and then it rests in the shade of a tree."
_DESIGN = "A warm, low voice of an elderly man, who speaks slowly and smiles."
_TEXTS = (
    _TEXT,
    "On May 3 the 8:15 train to St. Louis cost $4.50, about 12% more than the year before.",
    "I can move your appointment to Thursday at ten. Would that be all right?",
)
_DESIGNS = (_DESIGN, "A bright young woman, who speaks fast and with much energy.")
_MESSAGES = ("Write a short story about a lighthouse.", "What is a codec?")
_HISTORY = '<details><summary>History of this visit</summary><ol id="spoken-list"></ol></details>'
_MEASURED = (
    ("first", "First audio"),
    ("playback", "Playback began after"),
    ("factor", "Real-time factor"),
    ("audio", "Played"),
    ("gaps", "Gaps"),
)


def build(models: Sequence[ServedVoice], chats: Sequence[str] = ()) -> Any:
    """Return the page, `gradio.Blocks` whose buttons call ``static/demo.js``.

    Args:
        chats: Ids of models that answer messages.
    """
    with gr.Blocks(title="Antiphon", analytics_enabled=False) as blocks:
        gr.Markdown("# Antiphon\nSpeech is played while it is generated.")
        spoken = gr.Audio(
            label="Speech",
            interactive=False,
            buttons=["download"],
            waveform_options={
                "waveform_color": "#84a09c",
                "waveform_progress_color": "#0f766e",
            },
            render=False,
        )
        with gr.Tabs():
            for model in models:
                name = f" · {model.id}" if len(models) > 1 else ""
                for title, fill in _tabs(model):
                    with gr.Tab(title + name):
                        _speaking(model, fill(model), spoken)
            if chats:
                with gr.Tab("Chat"):
                    _chat(chats, models)
        gr.HTML(_measured())
        spoken.render()
        gr.HTML(_HISTORY)
    return blocks


def _tabs(model: ServedVoice) -> list[tuple[str, Any]]:
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
    described = gr.Textbox(_DESIGN, label="The voice", lines=2)
    gr.Examples([[text] for text in _DESIGNS], described)
    return {"instructions": described, **_language(model)}


def _clone(model: ServedVoice) -> dict[str, gr.components.Component]:
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


def _speaking(
    model: ServedVoice, controls: dict[str, gr.components.Component], spoken: gr.Audio
) -> None:
    """Add text and buttons below controls; ``spoken`` gets the file."""
    text = gr.Textbox(_TEXT, label="Text", lines=4, elem_classes="spoken-text")
    gr.Examples([[text] for text in _TEXTS], text)
    with gr.Row():
        streamed = gr.Checkbox(label="Send the text word by word, as a language model writes it")
        words_per_s = gr.Slider(1, 20, value=4, step=1, label="Words a second")
    with gr.Row():
        speak = gr.Button("Speak", variant="primary", elem_classes="speak")
        _stop_button()
    controls |= {"text": text, "isStreamed": streamed, "wordsPerS": words_per_s}
    fixed = json.dumps({"model": model.id, "sampleRateHz": model.sample_rate_hz})
    call = (
        f"(...values) => {{ const names = {json.dumps(list(controls))};"
        " const given = Object.fromEntries(names.map((name, index) => [name, values[index]]));"
        f" return antiphonDemo.speak({{...{fixed}, ...given}}); }}"
    )
    speak.click(None, list(controls.values()), spoken, js=call)


def _stop_button() -> None:
    """Add a button that the page enables while something runs."""
    stop = gr.Button("Stop", variant="stop", elem_classes="stop")
    stop.click(None, js="() => { antiphonDemo.stop(); return []; }")


def _chat(chats: Sequence[str], models: Sequence[ServedVoice]) -> None:
    """Add a conversation whose answers are written and spoken."""
    speakers = [
        (f"{name} · {model.id}", json.dumps({"model": model.id, "voice": voice}))
        for model in models
        for name, voice in model.voices
    ]
    with gr.Row():
        model = gr.Dropdown(list(chats), value=chats[0], label="Model")
        silent = ("none: written only", "")
        speaker = gr.Dropdown(
            [*speakers, silent], value=[*speakers, silent][0][1], label="Voice of the answers"
        )
    history = gr.Chatbot(label="Conversation", height=320, buttons=["copy"])
    text = gr.Textbox(label="Message", lines=2, elem_classes="message-text")
    gr.Examples([[message] for message in _MESSAGES], text)
    with gr.Row():
        send = gr.Button("Send", variant="primary", elem_classes="send")
        _stop_button()
    call = "(model, speaker, history, text) => antiphonDemo.chat({ model, speaker, history, text })"
    gr.on(
        [send.click, text.submit], None, [model, speaker, history, text], [history, text], js=call
    )


def _measured() -> str:
    rows = "".join(
        f'<div><dt>{title}</dt><dd id="measured-{name}">–</dd></div>' for name, title in _MEASURED
    )
    return (
        '<section id="measured" data-state="idle" aria-live="polite">'
        f'<p id="measured-state">Ready</p><dl>{rows}</dl><p id="measured-text"></p></section>'
    )
