/** The recording whose voice a model speaks with, and its transcript. */

import { dataUri } from "./data-uri.js";
import { Recorder } from "./recorder.js";
import { element } from "./view.js";

const words = element("reference-text", HTMLInputElement);
const SHOWN = "data:audio/wav;base64,…";

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

  /** The fields of a request, as they are shown. @returns {import("./api.js").SpeechBody} */
  get shown() {
    return this.#isWanted && this.#recorder.recording ? { ref_audio: SHOWN, ...this.#transcript } : {};
  }

  /** The fields of a request. @returns {Promise<import("./api.js").SpeechBody>} */
  async fields() {
    const { recording } = this.#recorder;
    if (!this.#isWanted || !recording) return {};
    return { ref_audio: await dataUri(recording), ...this.#transcript };
  }

  /** @returns {import("./api.js").SpeechBody} */
  get #transcript() {
    return words.value.trim() ? { ref_text: words.value } : { x_vector_only_mode: true };
  }
}
