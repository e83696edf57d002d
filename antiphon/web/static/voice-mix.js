/** The form that mixes voices of a model by weights, such as `af_bella(2)+af_sky`. */

import { describe, fill } from "./form.js";
import { element, show } from "./view.js";

const MOST_PARTS = 16;
const form = element("mix-form", HTMLFormElement);
const parts = element("mix-parts", HTMLElement);
const moreButton = element("mix-more", HTMLButtonElement);

export class VoiceMix {
  /** @type {{voice: HTMLSelectElement, weight: HTMLInputElement}[]} */
  #parts = [];
  /** @type {import("./api.js").Voice[]} */
  #voices = [];

  /** @param {{onListen: (mix: string) => void, onUse: (mix: string) => void}} listener */
  constructor({ onListen, onUse }) {
    form.addEventListener("input", () => show("mix-name", this.#name));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      onListen(this.#name);
    });
    element("mix-use", HTMLButtonElement).addEventListener("click", () => onUse(this.#name));
    moreButton.addEventListener("click", () => this.#add().focus());
  }

  /** @param {import("./api.js").Model} model */
  adapt({ voice_mixing, voices = [] }) {
    form.hidden = !voice_mixing || voices.length < 2;
    if (form.hidden) return;
    this.#voices = voices;
    for (const { voice } of this.#parts) this.#offer(voice);
    while (this.#parts.length < 2) this.#add();
  }

  get #name() {
    return this.#parts
      .filter(({ weight }) => weight.valueAsNumber > 0)
      .map(({ voice, weight }) => (weight.value === "1" ? voice.value : `${voice.value}(${weight.value})`))
      .join("+");
  }

  /** @param {HTMLSelectElement} voice */
  #offer(voice) {
    fill(voice, this.#voices.map((each) => ({ value: each.id, label: describe(each) })));
  }

  /** Add a voice to the mix. @returns {HTMLSelectElement} its field */
  #add() {
    const number = this.#parts.length + 1;
    const voice = document.createElement("select");
    const weight = document.createElement("input");
    Object.assign(weight, { type: "number", min: "0", max: "100", step: "0.1", value: "1", required: true });
    this.#parts.push({ voice, weight });
    this.#offer(voice);
    voice.selectedIndex = (number - 1) % voice.length;
    parts.append(labelled(`Voice ${number}`, voice, "field long"), labelled("Weight", weight, "field"));
    moreButton.hidden = number === MOST_PARTS;
    show("mix-name", this.#name);
    return voice;
  }
}

/** @param {string} text @param {HTMLElement} control @param {string} className */
function labelled(text, control, className) {
  const label = document.createElement("label");
  label.className = className;
  const name = document.createElement("span");
  name.textContent = text;
  label.append(name, control);
  return label;
}
