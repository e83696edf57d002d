/** What the user set: fills the lists, and turns the fields into the body of a request. */

import { element } from "./view.js";

/**
 * @typedef {import("./api.js").Model} Model
 * @typedef {import("./api.js").Voice} Voice
 */

const text = element("text", HTMLTextAreaElement);
const model = element("model", HTMLSelectElement);
const voice = element("voice", HTMLSelectElement);
const language = element("language", HTMLSelectElement);
const speed = element("speed", HTMLInputElement);
const instructions = element("instructions", HTMLInputElement);
const seed = element("seed", HTMLInputElement);
const format = element("format", HTMLSelectElement);

/** Twentieths up to double speed, tenths above: 1 is a stop, and every stop a round number. */
const SPEEDS = [
  ...Array.from({ length: 35 }, (_, i) => (5 + i) / 20),
  ...Array.from({ length: 21 }, (_, i) => (20 + i) / 10),
];
const NORMAL_SPEED = SPEEDS.indexOf(1);

export class Form {
  /** @type {Model[]} */
  #models = [];
  #drawnSeed = drawSeed();
  #isSeedUsed = false;
  /** @type {Voice[]} */
  #voices = [];
  /** A voice of a model beside those listed, such as a mix. */
  #further = { owner: "", name: "" };

  /** @param {{onModel: () => void, onChange: () => void}} listener */
  constructor({ onModel, onChange }) {
    const changed = () => {
      this.#showValues();
      onChange();
    };
    for (const field of [text, voice, language, speed, instructions, seed, format]) {
      field.addEventListener("input", changed);
    }
    model.addEventListener("input", () => {
      this.#adapt();
      changed();
      onModel();
    });
    speed.addEventListener("dblclick", () => {
      speed.valueAsNumber = NORMAL_SPEED;
      changed();
    });
    // A field inside a closed fold cannot show what is wrong with it.
    seed.addEventListener("invalid", () => seed.closest("details")?.setAttribute("open", ""));
    this.#showValues();
  }

  get model() {
    return this.#models.find(({ id }) => id === model.value);
  }

  get seed() {
    return seed.value === "" ? this.#drawnSeed : seed.valueAsNumber;
  }

  /** @param {Model[]} models */
  setModels(models) {
    this.#models = models;
    fill(model, models.map(({ id }) => ({ value: id, label: id })));
    this.#adapt();
  }

  /** Choose a voice, such as a mix of others, or the words that describe one. @param {{voice?: string, instructions?: string}} choice */
  use({ voice: id, instructions: words }) {
    if (id) this.#offer(id);
    if (words) instructions.value = words;
    instructions.closest("details")?.toggleAttribute("open", Boolean(words));
    text.dispatchEvent(new Event("input"));
    text.focus();
  }

  /** @param {string} id */
  chooseModel(id) {
    if (model.value === id) return;
    model.value = id;
    this.#adapt();
  }

  /** @param {Voice[]} voices */
  setVoices(voices) {
    this.#voices = voices;
    const offered = voices.map((each) => ({ value: requestName(each), label: describe(each) }));
    const { owner, name } = this.#further;
    const isMissing = owner === model.value && offered.every(({ value }) => value !== name);
    fill(voice, isMissing ? [...offered, { value: name, label: name }] : offered);
  }

  /** Choose a voice, also one that is not listed. @param {string} name */
  #offer(name) {
    this.#further = { owner: model.value, name };
    this.setVoices(this.#voices);
    voice.value = name;
  }

  /** A new utterance has a new seed, unless the user gave one. */
  takeSeed() {
    if (this.#isSeedUsed) this.#drawnSeed = drawSeed();
    this.#isSeedUsed = true;
    this.#showValues();
  }

  /** Set the fields of a request again. @param {import("./api.js").SpeechBody} body */
  take(body) {
    text.value = String(body.input);
    language.value = String(body.language ?? "");
    instructions.value = String(body.instructions ?? "");
    speed.valueAsNumber = SPEEDS.indexOf(Number(body.speed ?? 1));
    seed.value = String(body.seed);
    if (body.voice) this.#offer(String(body.voice));
    text.dispatchEvent(new Event("input"));
    text.focus();
  }

  /** The request, without what has its default. @returns {import("./api.js").SpeechBody} */
  body() {
    return {
      ...(model.value && { model: model.value }),
      ...(voice.value && { voice: voice.value }),
      input: text.value,
      response_format: format.value || "mp3",
      ...(this.#speed !== 1 && { speed: this.#speed }),
      ...(language.value && { language: language.value }),
      ...(instructions.value && !instructions.disabled && { instructions: instructions.value }),
      seed: this.seed,
    };
  }

  get #speed() {
    return SPEEDS[speed.valueAsNumber];
  }

  #adapt() {
    const languages = this.model?.languages ?? [];
    fill(language, [
      { value: "", label: "Automatic" },
      ...languageOptions(languages),
    ]);
    this.setVoices(this.model?.voices ?? []);
    element("language-field", HTMLElement).hidden = languages.length === 0;
    instructions.disabled = this.model?.instructions === false;
    element("instructions-hint", HTMLElement).hidden = !instructions.disabled;
  }

  #showValues() {
    const count = [...text.value].length;
    const shown = `${this.#speed.toFixed(2)}×`;
    element("text-count", HTMLElement).textContent =
      `${count.toLocaleString("en")} ${count === 1 ? "character" : "characters"}`;
    element("speed-value", HTMLElement).textContent = shown;
    speed.setAttribute("aria-valuetext", shown);
  }
}

/** Replace the options, and keep the choice where it is still offered. @param {HTMLSelectElement} select @param {{value: string, label: string}[]} options */
export function fill(select, options) {
  const chosen = select.value;
  select.replaceChildren(...options.map(({ value, label }) => new Option(label, value)));
  if (options.some(({ value }) => value === chosen)) select.value = chosen;
}

/** Return each language once, by its English name: models list names, codes, or both. @param {string[]} languages */
export function languageOptions(languages) {
  const names = new Intl.DisplayNames("en", { type: "language" });
  const options = languages
    .filter((value) => value !== "auto")
    .map((value) => {
      const isCode = /^[a-z]{2,3}(-|$)/.test(value);
      return { value, label: (isCode && names.of(value)) || capitalized(value) };
    });
  return options.filter(({ label }, n) => n === options.findIndex((each) => each.label === label));
}

/** @param {Voice} voice */
export function describe(voice) {
  const name = voice.name || voice.id;
  return traits(voice) ? `${name} (${traits(voice)})` : name;
}

/** @param {Voice} voice */
export function traits({ language, gender }) {
  return [language, gender].filter(Boolean).join(", ");
}

/** What a request calls a voice. @param {Voice} voice */
export function requestName({ id, name, type }) {
  return type === "audio_sample" ? name : id;
}

/** @param {string} word */
function capitalized(word) {
  return word.charAt(0).toUpperCase() + word.slice(1);
}

function drawSeed() {
  return crypto.getRandomValues(new Uint32Array(1))[0];
}
