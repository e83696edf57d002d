/** The fields of a chat: what is said next, by which models, and how. */

import { describe, fill } from "./form.js";
import { canMake } from "./tasks.js";
import { element, show } from "./view.js";

/** @typedef {import("./api.js").Model} Model */
/** @typedef {import("./api.js").Voice} Voice */
/** @typedef {{model: string, voice?: Voice}} Speaker a model that speaks, and a voice of it */

const text = element("chat-text", HTMLTextAreaElement);
const model = element("chat-model", HTMLSelectElement);
const speak = element("chat-speak", HTMLInputElement);
const voice = element("chat-voice", HTMLSelectElement);
const temperature = element("chat-temperature", HTMLInputElement);
const maxTokens = element("chat-max-tokens", HTMLInputElement);
const sendButton = element("chat-send", HTMLButtonElement);
const stopButton = element("chat-stop", HTMLButtonElement);
const status = element("chat-status", HTMLElement);

export class ChatForm {
  /** @type {Model[]} */
  #models = [];
  /** Models that speak. @type {{model: string, voices: Voice[]}[]} */
  #others = [];
  /** Who can speak the answers of the chosen model: itself first. @type {Speaker[]} */
  #speakers = [];

  /** @param {{onSend: () => void, onStop: () => void, onNew: () => void}} listener */
  constructor({ onSend, onStop, onNew }) {
    const form = element("chat-form", HTMLFormElement);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (text.value.trim()) onSend();
    });
    text.addEventListener("keydown", (event) => {
      const { key, shiftKey, ctrlKey, metaKey, altKey, isComposing } = event;
      if (key !== "Enter" || shiftKey || ctrlKey || metaKey || altKey || isComposing) return;
      event.preventDefault();
      form.requestSubmit();
    });
    stopButton.addEventListener("click", onStop);
    element("chat-new", HTMLButtonElement).addEventListener("click", () => {
      onNew();
      text.focus();
    });
    model.addEventListener("input", () => this.#adapt());
    speak.addEventListener("input", () => this.#adapt());
    for (const field of [temperature, maxTokens]) {
      // A field inside a closed fold cannot show what is wrong with it.
      field.addEventListener("invalid", () => field.closest("details")?.setAttribute("open", ""));
    }
  }

  /** Whether answers are to be spoken. */
  get speaks() {
    return speak.checked && this.#speakers.length > 0;
  }

  /** @param {Model[]} models all that are served */
  setModels(models) {
    this.#models = models.filter((each) => canMake(each, "chat"));
    fill(model, this.#models.map(({ id }) => ({ value: id, label: id })));
    element("chat-model-field", HTMLElement).hidden = this.#models.length < 2;
    this.#adapt();
  }

  /** @param {{model: string, voices: Voice[]}[]} models that speak */
  setVoices(models) {
    this.#others = models;
    this.#adapt();
  }

  /** What was written, which leaves the field. */
  takeText() {
    const { value } = text;
    text.value = "";
    return value;
  }

  /** Give back what could not be sent, unless more was written since. @param {string} value */
  giveBack(value) {
    text.value ||= value;
  }

  /** What the model is told before all else, if it is to speak with a voice of its own. */
  get instructions() {
    const chosen = this.#models.find(({ id }) => id === model.value);
    const isOwn = this.speaks && this.#speaker?.model === model.value;
    return (isOwn && chosen?.chat_voice?.instructions) || "";
  }

  get #speaker() {
    return this.#speakers.find((each) => valueOf(each) === voice.value);
  }

  /** The members of a request beside its messages. */
  options() {
    const speaker = this.#speaker;
    return {
      model: model.value,
      ...(temperature.value && { temperature: temperature.valueAsNumber }),
      ...(maxTokens.value && { max_completion_tokens: maxTokens.valueAsNumber }),
      ...(this.speaks &&
        speaker && {
          modalities: ["text", "audio"],
          audio: {
            model: speaker.model,
            ...(speaker.voice && { voice: speaker.voice.id }),
            format: "pcm16",
          },
        }),
    };
  }

  /** @param {string} told @param {boolean} isBusy whether there is something to stop */
  showStatus(told, isBusy) {
    const stopHadFocus = document.activeElement === stopButton;
    stopButton.disabled = !isBusy;
    sendButton.textContent = isBusy ? "Interrupt" : "Send";
    if (stopHadFocus && !isBusy) text.focus();
    show("chat-status", told); // the same again would be read aloud again
    status.classList.toggle("busy", isBusy);
  }

  #adapt() {
    const chosen = this.#models.find(({ id }) => id === model.value);
    const chat = chosen?.chat;
    temperature.placeholder = chat ? String(chat.sampling.temperature) : "";
    maxTokens.placeholder = chat ? `up to ${chat.max_model_len}` : "";
    this.#offerVoices(chosen);
    element("chat-speak-field", HTMLElement).hidden = this.#speakers.length === 0;
    element("chat-voice-field", HTMLElement).hidden = !this.speaks;
  }

  /** @param {Model} [chosen] the model that answers */
  #offerVoices(chosen) {
    const own = chosen?.chat_voice?.voices.map((id) => ({ id, name: id })) ?? [];
    const models = [
      ...(chosen && own.length ? [{ model: chosen.id, voices: own }] : []),
      ...this.#others,
    ];
    this.#speakers = models.flatMap(({ model, voices }) =>
      voices.length ? voices.map((voice) => ({ model, voice })) : [{ model }],
    );
    const label = (/** @type {Speaker} */ { model, voice }) =>
      [voice ? describe(voice) : "Default", ...(models.length > 1 ? [model] : [])].join(" · ");
    fill(voice, this.#speakers.map((each) => ({ value: valueOf(each), label: label(each) })));
  }
}

/** @param {Speaker} speaker */
function valueOf({ model, voice }) {
  return JSON.stringify([model, voice?.id ?? null]);
}
