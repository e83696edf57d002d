/** The fields that a picture and a video share, and the state of what is being made. */

import { fill } from "./form.js";
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
 * @property {number} [max_images] to edit
 * @property {boolean} [needs_image]
 * @property {boolean} [masks]
 */

/** Ratios of width and height; the area is that of the model's own size. */
const SHAPES = { Square: 1, Landscape: 3 / 2, Portrait: 2 / 3, Wide: 16 / 9, Tall: 9 / 16 };
const CUSTOM = "custom";

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
    this.#field("shape", HTMLSelectElement).addEventListener("input", () => this.#takeShape());
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
    element(`${this.#task}-result`, HTMLElement).hidden = false;
    show(`${this.#task}-whole`, "–");
    show(`${this.#task}-seed-used`, String(seed));
    this.showProgress(0);
    this.showStatus("Working…", true);
  }

  /** @param {string} status */
  end(status) {
    this.#stop.disabled = true;
    this.showStatus(status, false);
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

  /** @param {string} text @param {boolean} isBusy */
  showStatus(text, isBusy) {
    const status = element(`${this.#task}-status`, HTMLElement);
    show(status.id, text);
    status.classList.toggle("busy", isBusy);
  }

  #adapt() {
    const drawing = this.drawing;
    if (!drawing) return;
    const { default_size: own, size_multiple: multiple } = drawing;
    const sizes = Object.entries(SHAPES).map(([name, ratio]) => ({ name, size: sizeOf(own, multiple, ratio) }));
    if (!sizes.some(({ size }) => size === own)) sizes.unshift({ name: "Default", size: own });
    fill(this.#field("shape", HTMLSelectElement), [
      ...sizes.map(({ name, size }) => ({ value: size, label: `${name}, ${size.replace("x", " × ")}` })),
      { value: CUSTOM, label: "Other" },
    ]);
    this.#field("shape", HTMLSelectElement).value = own;
    for (const name of ["width", "height"]) {
      const field = this.#field(name, HTMLInputElement);
      field.min = field.step = String(multiple);
    }
    this.#takeShape();
    this.#field("steps", HTMLInputElement).valueAsNumber =
      drawing.parameters?.num_inference_steps ?? 50;
  }

  /** Put a preset into the fields of width and height, which are shown for other sizes. */
  #takeShape() {
    const { value } = this.#field("shape", HTMLSelectElement);
    const sides = value.split("x").map(Number);
    ["width", "height"].forEach((name, i) => {
      this.#field(`${name}-field`, HTMLElement).hidden = value !== CUSTOM;
      if (value !== CUSTOM) this.#field(name, HTMLInputElement).valueAsNumber = sides[i];
    });
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

/** A size of a ratio with about the area of a model's own, in whole multiples. @param {string} own @param {number} multiple @param {number} ratio */
function sizeOf(own, multiple, ratio) {
  const [width, height] = own.split("x").map(Number);
  const area = width * height;
  const sides = [Math.sqrt(area * ratio), Math.sqrt(area / ratio)];
  return sides.map((side) => Math.max(1, Math.round(side / multiple)) * multiple).join("x");
}
