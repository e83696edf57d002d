/** A recording of a voice: chosen from the disk, or made here. */

import { button, element, offer, show } from "./view.js";

export class Recorder {
  /** @type {Blob | null} */
  recording = null;
  /** The name of its file. */
  fileName = "";

  /** @type {MediaRecorder | null} */
  #recorder = null;
  #id;
  #file;
  #button;
  #onChange;

  /** @param {string} id of the field for a file @param {{onChange?: () => void, onError: (error: unknown) => void}} listener */
  constructor(id, { onChange = () => {}, onError }) {
    this.#id = id;
    this.#file = element(id, HTMLInputElement);
    this.#button = element(`${id}-record`, HTMLButtonElement);
    this.#onChange = onChange;
    this.#file.addEventListener("input", () => {
      const file = this.#file.files?.[0];
      this.take(file ?? null, file?.name);
    });
    this.#button.addEventListener("click", () => void this.#record().catch(onError));
    // Pages without TLS have no microphone, but those of this very machine.
    this.#button.hidden = !navigator.mediaDevices;
  }

  /** @param {Blob | null} recording @param {string} [fileName] */
  take(recording, fileName = "recording.webm") {
    this.recording = recording;
    this.fileName = fileName;
    if (!(recording instanceof File)) this.#file.value = "";
    show(`${this.#id}-hint`, recording ? `${fileName}, ${(recording.size / 1024).toFixed(0)} KiB` : "");
    if (recording && !(recording instanceof File)) {
      element(`${this.#id}-hint`, HTMLElement).append(" ", button("Save", () => offer(recording, fileName)));
    }
    const audio = element(`${this.#id}-audio`, HTMLAudioElement);
    URL.revokeObjectURL(audio.src);
    audio.hidden = !recording;
    if (recording) audio.src = URL.createObjectURL(recording);
    else audio.removeAttribute("src");
    this.#onChange();
  }

  async #record() {
    if (this.#recorder) {
      this.#recorder.stop();
      return;
    }
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    const recorder = (this.#recorder = new MediaRecorder(stream));
    recorder.ondataavailable = ({ data }) => this.take(data);
    recorder.onstop = () => {
      for (const track of stream.getTracks()) track.stop();
      this.#recorder = null;
      this.#button.textContent = "Record";
    };
    recorder.start();
    this.#button.textContent = "Stop recording";
  }
}
