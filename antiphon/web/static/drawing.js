/** The tab of images: a picture is shown as it forms. */

import { ServerError } from "./api.js";
import { serverSentEvents } from "./events.js";
import { PictureForm } from "./picture-form.js";
import { clearAlert, element } from "./view.js";

const NUM_PREVIEWS = 3;

export class Drawing {
  #api;
  #report;
  /** @type {AbortController | null} */
  #work = null;
  #url = "";

  /** @param {import("./api.js").Api} api @param {(error: unknown) => void} report */
  constructor(api, report) {
    this.#api = api;
    this.#report = report;
    this.form = new PictureForm("image", {
      onMake: () => void this.#draw(),
      onStop: () => this.stop(),
    });
  }

  stop() {
    this.#work?.abort();
  }

  async #draw() {
    this.stop();
    const work = (this.#work = new AbortController());
    const body = { ...this.form.body(), stream: true, partial_images: NUM_PREVIEWS };
    clearAlert();
    this.form.begin(body.seed);
    try {
      let isWhole = false;
      const response = await this.#api.post("/images/generations", body, work.signal);
      for await (const event of serverSentEvents(response, (told) => this.#showStep(told))) {
        if (event.error) throw new ServerError(event.error.message, event.error);
        isWhole = event.type === "image_generation.completed";
        this.#show(event, isWhole);
      }
      if (!isWhole) throw new ServerError("The image broke off.");
      this.form.end("Finished");
    } catch (error) {
      if (work === this.#work) this.form.end(work.signal.aborted ? "Stopped" : "Failed");
      if (!work.signal.aborted) this.#report(error);
    }
  }

  /** The server tells its steps in comments. @param {string} told */
  #showStep(told) {
    const [, step, numSteps] = /^step (\d+)\/(\d+)$/.exec(told) ?? [];
    if (numSteps) this.form.showProgress(Number(step) / Number(numSteps));
  }

  /** @param {{b64_json: string, output_format?: string, partial_image_index?: number}} event @param {boolean} isWhole */
  #show(event, isWhole) {
    const bytes = Uint8Array.from(atob(event.b64_json), (letter) => letter.charCodeAt(0));
    URL.revokeObjectURL(this.#url);
    this.#url = URL.createObjectURL(
      new Blob([bytes], { type: `image/${event.output_format ?? "png"}` }),
    );
    const picture = element("image-picture", HTMLImageElement);
    picture.src = this.#url;
    picture.alt = element("image-prompt", HTMLTextAreaElement).value;
    picture.hidden = false;
    if (event.partial_image_index === 0) this.form.showTime("first");
    if (!isWhole) return;
    this.form.showProgress(1);
    this.form.showTime("whole");
    this.form.offer(this.#url);
  }
}
