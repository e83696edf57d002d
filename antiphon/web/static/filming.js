/** The tab of videos: a job is begun, watched, and its file shown. */

import { ServerError } from "./api.js";
import { PictureForm } from "./picture-form.js";
import { clearAlert, element } from "./view.js";

const POLL_MS = 500;
const LONGEST_LIST = 100;

export class Filming {
  #api;
  #report;
  /** @type {AbortController | null} */
  #work = null;
  #url = "";

  /** @param {import("./api.js").Api} api @param {(error: unknown) => void} report */
  constructor(api, report) {
    this.#api = api;
    this.#report = report;
    this.form = new PictureForm("video", {
      onMake: () => void this.#film(),
      onStop: () => this.stop(),
      onModel: () => this.#adapt(),
    });
  }

  stop() {
    this.#work?.abort();
  }

  /** @param {import("./api.js").Model[]} models */
  setModels(models) {
    this.form.setModels(models);
    this.#adapt();
  }

  async #film() {
    this.stop();
    const work = (this.#work = new AbortController());
    clearAlert();
    const { data, seed } = this.#data();
    this.form.begin(seed);
    element("video-download", HTMLAnchorElement).hidden = true;
    let id = "";
    try {
      let job = await (await this.#api.postForm("/videos", data, work.signal)).json();
      id = job.id;
      while (job.status === "queued" || job.status === "in_progress") {
        this.form.showProgress((job.progress ?? 0) / 100);
        this.form.showStatus(job.status === "queued" ? await this.#place(id, work.signal) : "Working…", true);
        await pause(POLL_MS, work.signal);
        job = await (await this.#api.get(`/videos/${id}`, work.signal)).json();
      }
      if (job.status !== "completed") throw new ServerError(job.error?.message ?? "The video failed.", job.error ?? {});
      const file = await this.#api.get(`/videos/${id}/content`, work.signal);
      this.#show(await file.blob());
      this.form.end("Finished");
    } catch (error) {
      if (work === this.#work) this.form.end(work.signal.aborted ? "Stopped" : "Failed");
      if (!work.signal.aborted) this.#report(error);
      else if (id) void this.#api.remove(`/videos/${id}`).catch(() => undefined);
    }
  }

  /** Where a job stands in the queue, among those that one may see. @param {string} id @param {AbortSignal} signal */
  async #place(id, signal) {
    const { data } = await (await this.#api.get(`/videos?limit=${LONGEST_LIST}`, signal)).json();
    const queued = data.filter((/** @type {{status: string}} */ { status }) => status === "queued");
    const newer = queued.findIndex((/** @type {{id: string}} */ job) => job.id === id);
    return newer < 0 ? "Queued" : `Queued, position ${queued.length - newer}`;
  }

  #data() {
    const data = new FormData();
    const { seed, ...body } = this.form.body();
    const frames = element("video-frames", HTMLInputElement).value;
    const fps = element("video-fps", HTMLInputElement).value;
    for (const [name, value] of Object.entries({ ...body, seed, num_frames: frames, fps })) {
      data.set(name, String(value));
    }
    const image = element("video-image", HTMLInputElement).files?.[0];
    if (image && this.form.drawing?.takes_image) data.set("input_reference", image);
    return { data, seed };
  }

  /** @param {Blob} video */
  #show(video) {
    URL.revokeObjectURL(this.#url);
    this.#url = URL.createObjectURL(video);
    const player = element("video-player", HTMLVideoElement);
    player.src = this.#url;
    player.hidden = false;
    this.form.showProgress(1);
    this.form.showTime("whole");
    const link = element("video-download", HTMLAnchorElement);
    link.href = this.#url;
    link.hidden = false;
  }

  #adapt() {
    const drawing = this.form.drawing;
    if (!drawing) return;
    const frames = element("video-frames", HTMLInputElement);
    frames.min = "1";
    frames.step = String(drawing.frame_multiple ?? 1);
    frames.valueAsNumber = drawing.default_num_frames ?? 1;
    element("video-image-field", HTMLElement).hidden = !drawing.takes_image;
  }
}

/** @param {number} ms @param {AbortSignal} signal */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    }, { once: true });
  });
}
