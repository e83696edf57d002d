/** The recording whose voice a model speaks with: chosen from the disk, or made here. */

import { dataUri } from "./data-uri.js";
import { element, show } from "./view.js";

const file = element("reference", HTMLInputElement);
const words = element("reference-text", HTMLInputElement);
const recordButton = element("record", HTMLButtonElement);
const SHOWN = "data:audio/wav;base64,…";

export class Reference {
  /** @type {Blob | null} */
  #recording = null;
  /** @type {MediaRecorder | null} */
  #recorder = null;
  #isWanted = false;
  #onChange;

  /** @param {{onChange: () => void, onError: (error: unknown) => void}} listener */
  constructor({ onChange, onError }) {
    this.#onChange = onChange;
    file.addEventListener("input", () => this.#take(file.files?.[0] ?? null));
    words.addEventListener("input", onChange);
    recordButton.addEventListener("click", () => void this.#record().catch(onError));
    // Pages without TLS have no microphone, but those of this very machine.
    recordButton.hidden = !navigator.mediaDevices;
  }

  /** @param {import("./api.js").Model | undefined} model */
  adapt(model) {
    this.#isWanted = model?.cloning ?? false;
    element("reference-field", HTMLElement).hidden = !this.#isWanted;
  }

  /** The fields of a request, as they are shown. @returns {import("./api.js").SpeechBody} */
  get shown() {
    return this.#isWanted && this.#recording ? { ref_audio: SHOWN, ...this.#said } : {};
  }

  /** The fields of a request. @returns {Promise<import("./api.js").SpeechBody>} */
  async fields() {
    if (!this.#isWanted || !this.#recording) return {};
    return { ref_audio: await dataUri(this.#recording), ...this.#said };
  }

  /** @returns {import("./api.js").SpeechBody} */
  get #said() {
    return words.value.trim() ? { ref_text: words.value } : { x_vector_only_mode: true };
  }

  /** @param {Blob | null} recording */
  #take(recording) {
    this.#recording = recording;
    show("reference-hint", recording ? `${(recording.size / 1024).toFixed(0)} KiB` : "");
    this.#onChange();
  }

  async #record() {
    if (this.#recorder) {
      this.#recorder.stop();
      return;
    }
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    const recorder = (this.#recorder = new MediaRecorder(stream));
    recorder.ondataavailable = ({ data }) => this.#take(data);
    recorder.onstop = () => {
      for (const track of stream.getTracks()) track.stop();
      this.#recorder = null;
      recordButton.textContent = "Record";
    };
    recorder.start();
    file.value = "";
    recordButton.textContent = "Stop recording";
  }
}
