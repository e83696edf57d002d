/** The fields that a picture and a video share, and the state of what is being made. */

import { canMake } from "./tasks.js";
import { element, show } from "./view.js";

/**
 * @typedef {object} Drawing what a model says of a task that draws
 * @property {string} default_size such as 1024x1024
 * @property {number} size_multiple
 * @property {Record<string, number>} [parameters]
 * @property {number} [default_num_frames]
 * @property {number} [frame_multiple]
 * @property {boolean} [takes_image]
 */

export class PictureForm {
  #task;
  /** @type {import("./api.js").Model[]} */
  #models = [];
  #startedMs = 0;

  /**
   * @param {"image" | "video"} task
   * @param {{onMake: () => void, onStop: () => void, onModel?: () => void}} listener
   */
  constructor(task, { onMake, onStop, onModel }) {
    this.#task = task;
    this.form = element(`${task}-form`, HTMLFormElement);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      onMake();
    });
    this.#stop.addEventListener("click", onStop);
    this.#field("model", HTMLSelectElement).addEventListener("input", () => {
      this.#adapt();
      onModel?.();
    });
  }

  /** @param {import("./api.js").Model[]} models */
  setModels(models) {
    this.#models = models.filter((model) => canMake(model, this.#task));
    const select = this.#field("model", HTMLSelectElement);
    const chosen = select.value;
    select.replaceChildren(...this.#models.map(({ id }) => new Option(id, id)));
    if (this.#models.some(({ id }) => id === chosen)) select.value = chosen;
    else this.#adapt();
  }

  /** What the chosen model says of this task. @returns {Drawing | undefined} */
  get drawing() {
    const { value } = this.#field("model", HTMLSelectElement);
    return this.#models.find(({ id }) => id === value)?.[this.#task];
  }

  /** The fields as OpenAI's API and its extensions name them. */
  body() {
    const negative = this.#field("negative", HTMLInputElement).value;
    return {
      model: this.#field("model", HTMLSelectElement).value,
      prompt: this.#field("prompt", HTMLTextAreaElement).value,
      size: `${this.#number("width")}x${this.#number("height")}`,
      num_inference_steps: this.#number("steps"),
      ...(negative && { negative_prompt: negative }),
      seed: this.#seed(),
    };
  }

  /** @param {number} seed */
  begin(seed) {
    this.#startedMs = performance.now();
    this.#stop.disabled = false;
    element(`${this.#task}-download`, HTMLAnchorElement).hidden = true;
    for (const each of ["first", "whole"]) show(`${this.#task}-${each}`, "–");
    show(`${this.#task}-seed-used`, String(seed));
    this.showProgress(0);
    this.#showStatus("Working…", true);
  }

  /** @param {string} status */
  end(status) {
    this.#stop.disabled = true;
    this.#showStatus(status, false);
  }

  /** @param {number} fraction */
  showProgress(fraction) {
    element(`${this.#task}-progress`, HTMLProgressElement).value = fraction;
  }

  /** Show how long it took until now. @param {"first" | "whole"} id */
  showTime(id) {
    const seconds = (performance.now() - this.#startedMs) / 1000;
    show(`${this.#task}-${id}`, `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`);
  }

  /** Offer a file, of which the address is given back when the next one comes. @param {string} url */
  offer(url) {
    const link = element(`${this.#task}-download`, HTMLAnchorElement);
    link.href = url;
    link.hidden = false;
  }

  /** @param {string} text @param {boolean} isBusy */
  #showStatus(text, isBusy) {
    const status = element(`${this.#task}-status`, HTMLElement);
    status.textContent = text;
    status.classList.toggle("busy", isBusy);
  }

  #adapt() {
    const drawing = this.drawing;
    if (!drawing) return;
    const [width, height] = drawing.default_size.split("x").map(Number);
    for (const [name, value] of /** @type {const} */ ([["width", width], ["height", height]])) {
      const field = this.#field(name, HTMLInputElement);
      field.min = field.step = String(drawing.size_multiple);
      field.valueAsNumber = value;
    }
    this.#field("steps", HTMLInputElement).valueAsNumber =
      drawing.parameters?.num_inference_steps ?? 50;
  }

  #seed() {
    const { value, valueAsNumber } = this.#field("seed", HTMLInputElement);
    return value === "" ? crypto.getRandomValues(new Uint32Array(1))[0] : valueAsNumber;
  }

  /** @param {string} name */
  #number(name) {
    return this.#field(name, HTMLInputElement).valueAsNumber;
  }

  get #stop() {
    return element(`${this.#task}-stop`, HTMLButtonElement);
  }

  /** @template {HTMLElement} T @param {string} name @param {new () => T} type */
  #field(name, type) {
    return element(`${this.#task}-${name}`, type);
  }
}
