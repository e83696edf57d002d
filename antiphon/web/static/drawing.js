/** The tab of images: they are shown as they form, and edited. */

import { ServerError } from "./api.js";
import { serverSentEvents } from "./events.js";
import { PictureForm } from "./picture-form.js";
import { Picture } from "./picture.js";
import { button, clearAlert, element, show } from "./view.js";

const NUM_PREVIEWS = 3;

const count = element("image-count", HTMLInputElement);
const sourceField = element("image-source", HTMLInputElement);
const maskField = element("image-mask", HTMLInputElement);

export class Drawing {
  #api;
  #report;
  /** @type {AbortController | null} */
  #work = null;
  /** Images to edit. @type {File[]} */
  #sources = [];
  /** @type {Picture[]} */
  #pictures = [];

  /** @param {import("./api.js").Api} api @param {(error: unknown) => void} report */
  constructor(api, report) {
    this.#api = api;
    this.#report = report;
    this.form = new PictureForm("image", {
      onMake: () => void this.#draw(),
      onStop: () => this.stop(),
      onModel: () => this.#adapt(),
    });
    sourceField.addEventListener("input", () => this.#takeSources([...(sourceField.files ?? [])]));
  }

  /** @param {import("./api.js").Model[]} models */
  setModels(models) {
    this.form.setModels(models);
    this.#adapt();
  }

  stop() {
    this.#work?.abort();
  }

  async #draw() {
    this.stop();
    const work = (this.#work = new AbortController());
    const body = { ...this.form.body(), n: count.valueAsNumber, stream: true, partial_images: NUM_PREVIEWS };
    clearAlert();
    this.form.begin(body.seed);
    show("image-first", "–");
    this.#begin(body.n, body.prompt);
    try {
      const response = await this.#ask(body, work.signal);
      for await (const event of serverSentEvents(response, (comment) => this.#showStep(comment))) {
        if (event.error) throw new ServerError(event.error.message, event.error);
        this.#take(event);
      }
      if (!this.#pictures.every(({ isWhole }) => isWhole)) throw new ServerError("The image broke off.");
      this.form.showProgress(1);
      this.form.showTime("whole");
      this.form.end("Finished");
    } catch (error) {
      if (work === this.#work) this.form.end(work.signal.aborted ? "Stopped" : "Failed");
      if (!work.signal.aborted) this.#report(error);
    }
  }

  /** @param {number} n @param {string} prompt */
  #begin(n, prompt) {
    for (const picture of this.#pictures) picture.forget();
    const edit = this.form.drawing?.max_images ? (/** @type {File} */ file) => this.#edit(file) : null;
    this.#pictures = Array.from({ length: n }, () => new Picture(prompt, edit));
    element("image-pictures", HTMLElement).replaceChildren(...this.#pictures.map(({ root }) => root));
  }

  /** @param {Record<string, string | number | boolean>} body @param {AbortSignal} signal */
  #ask(body, signal) {
    if (this.#sources.length === 0) return this.#api.post("/images/generations", body, signal);
    const data = new FormData();
    for (const [name, value] of Object.entries(body)) data.set(name, String(value));
    for (const source of this.#sources) data.append("image[]", source);
    const mask = maskField.files?.[0];
    if (mask && this.form.drawing?.masks) data.set("mask", mask);
    return this.#api.postForm("/images/edits", data, signal);
  }

  /** @param {{type: string, index?: number, b64_json: string, output_format?: string}} event */
  #take(event) {
    if (this.#pictures.every(({ isEmpty }) => isEmpty)) this.form.showTime("first");
    this.#pictures[event.index ?? 0].show(event);
  }

  /** The server sends the steps of each image as comments. @param {string} comment */
  #showStep(comment) {
    const [, step, numSteps, number = "0"] = /^step (\d+)\/(\d+)(?: of (\d+))?$/.exec(comment) ?? [];
    if (!numSteps) return;
    this.#pictures[Number(number)].progress = Number(step) / Number(numSteps);
    const sum = this.#pictures.reduce((total, { progress }) => total + progress, 0);
    this.form.showProgress(sum / this.#pictures.length);
  }

  /** @param {File} file */
  #edit(file) {
    sourceField.value = "";
    this.#takeSources([file]);
    element("image-prompt", HTMLTextAreaElement).focus();
  }

  /** @param {File[]} files */
  #takeSources(files) {
    this.#sources = files;
    show("image-source-hint", files.length ? `To edit: ${files.map(({ name }) => name).join(", ")} ` : "");
    if (files.length) element("image-source-hint", HTMLElement).append(button("Clear", () => this.#clear()));
    element("image-mask-field", HTMLElement).hidden = files.length === 0 || !this.form.drawing?.masks;
    element("image-make", HTMLButtonElement).textContent = files.length ? "Edit" : "Draw";
  }

  #clear() {
    sourceField.value = maskField.value = "";
    this.#takeSources([]);
    sourceField.focus();
  }

  #adapt() {
    const { max_images: most = 0, needs_image: isNeeded = false } = this.form.drawing ?? {};
    element("image-sources", HTMLElement).hidden = most === 0;
    sourceField.multiple = most > 1;
    show("image-source-label", `Edit ${most > 1 ? `up to ${most} images` : "an image"}${isNeeded ? ", required" : ""}`);
    this.#takeSources(most === 0 ? [] : this.#sources);
  }
}
