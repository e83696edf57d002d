/** The recording whose voice a model speaks with, and its transcript. */

import { dataUri } from "./data-uri.js";
import { Recorder } from "./recorder.js";
import { element } from "./view.js";

const words = element("reference-text", HTMLInputElement);

export class Reference {
  #isWanted = false;
  #recorder;

  /** @param {{onChange: () => void, onError: (error: unknown) => void}} listener */
  constructor(listener) {
    this.#recorder = new Recorder("reference", listener);
    words.addEventListener("input", listener.onChange);
  }

  /** @param {import("./api.js").Model | undefined} model */
  adapt(model) {
    this.#isWanted = model?.cloning ?? false;
    element("reference-field", HTMLElement).hidden = !this.#isWanted;
  }

  /** @returns {import("./snippets.js").RecordedFile | null} */
  get file() {
    const { recording, fileName } = this.#recorder;
    return this.#isWanted && recording ? { fileName, type: recording.type } : null;
  }

  /** The fields of a request beside the recording. @returns {import("./api.js").SpeechBody} */
  get transcript() {
    if (!this.file) return {};
    return words.value.trim() ? { ref_text: words.value } : { x_vector_only_mode: true };
  }

  /** The fields of a request. @returns {Promise<import("./api.js").SpeechBody>} */
  async fields() {
    const { recording } = this.#recorder;
    if (!this.#isWanted || !recording) return {};
    return { ref_audio: await dataUri(recording), ...this.transcript };
  }
}
