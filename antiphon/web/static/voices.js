/** The tab of voices: they are listed, listened to, added, mixed, designed and deleted. */

import { fill, requestName, traits } from "./form.js";
import { Recorder } from "./recorder.js";
import { Replay } from "./replay.js";
import { canMake, hasVoices } from "./tasks.js";
import { button, clearAlert, element, paragraph, show } from "./view.js";
import { VoiceMix } from "./voice-mix.js";

/**
 * @typedef {import("./api.js").Model} Model
 * @typedef {import("./api.js").Voice} Voice
 * @typedef {{model: string, voice?: string, instructions?: string}} Choice what a voice is in a request
 */

const CONSENT = "Given by the speaker, as confirmed on the page of this server";
const model = element("voices-model", HTMLSelectElement);
const sample = element("voices-sample", HTMLInputElement);
const addForm = element("voices-form", HTMLFormElement);
const name = element("voice-name", HTMLInputElement);
const transcript = element("voice-text", HTMLInputElement);
const designForm = element("design-form", HTMLFormElement);
const description = element("design-text", HTMLTextAreaElement);
const keepButton = element("design-keep", HTMLButtonElement);

export class Voices {
  /** @type {Model[]} */
  #models = [];
  /** The latest sound of a design. @type {Blob | null} */
  #designed = null;
  #work = new AbortController();
  #replay = new Replay(() => {
    if (!this.#work.signal.aborted) this.#showStatus(this.#replay.isPlaying ? "Playing" : "", this.#replay.isPlaying);
  });
  #recorder;
  #mix;
  #api;
  #listener;

  /**
   * @param {import("./api.js").Api} api
   * @param {{onSpeech: () => void, onUse: (choice: Choice) => void, onChange: () => void, onError: (error: unknown) => void}} listener
   *   onSpeech: the page's other sounds are to end; onChange: a model has other voices than before
   */
  constructor(api, listener) {
    this.#api = api;
    this.#listener = listener;
    this.#recorder = new Recorder("voice-audio", { onError: listener.onError });
    this.#mix = new VoiceMix({
      onListen: (voice) => this.#listen({ model: model.value, voice }),
      onUse: (voice) => listener.onUse({ model: model.value, voice }),
    });
    model.addEventListener("change", () => void this.#adapt());
    addForm.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#try("Adding…", () => this.#add());
    });
    designForm.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#design();
    });
    element("design-use", HTMLButtonElement).addEventListener("click", () => {
      if (designForm.reportValidity()) listener.onUse({ model: model.value, instructions: description.value });
    });
    keepButton.addEventListener("click", () => {
      this.#recorder.take(this.#designed, "designed.wav");
      transcript.value = sample.value;
      name.focus();
    });
  }

  /** @param {Model[]} models */
  async setModels(models) {
    this.#models = models.filter((each) => canMake(each, "speech"));
    fill(model, this.#models.filter(hasVoices).map(({ id }) => ({ value: id, label: id })));
    element("voices-model-field", HTMLElement).hidden = model.length < 2;
    await this.#adapt();
  }

  stop() {
    this.#work.abort();
    this.#replay.stop();
    this.#showStatus("", false);
  }

  get #model() {
    return this.#models.find(({ id }) => id === model.value);
  }

  async #adapt() {
    const chosen = this.#model;
    if (!chosen) return;
    addForm.hidden = !this.#models.some(({ cloning }) => cloning);
    designForm.hidden = !chosen.voice_design;
    keepButton.hidden = addForm.hidden;
    this.#mix.adapt(chosen);
    try {
      const voices = await this.#api.voices(chosen.id);
      if (chosen === this.#model) {
        element("voices-list", HTMLUListElement).replaceChildren(...voices.map((each) => this.#entry(each, chosen)));
      }
    } catch (error) {
      this.#listener.onError(error);
    }
  }

  /** @param {Voice} voice @param {Model} owner */
  #entry(voice, owner) {
    const choice = { model: owner.id, voice: requestName(voice) };
    const isUploaded = voice.type === "audio_sample";
    const buttons = document.createElement("div");
    buttons.className = "buttons";
    buttons.append(
      button("Listen", () => void this.#listen(choice)),
      button("Use", () => this.#listener.onUse(choice)),
      ...(isUploaded ? [button("Delete", () => this.#delete(voice))] : []),
    );
    const label = voice.name || voice.id;
    for (const each of buttons.children) each.setAttribute("aria-label", `${each.textContent}: ${label}`);
    const note = isUploaded ? "your own" : traits(voice) || voice.description || "built in";
    const item = document.createElement("li");
    item.append(paragraph(label, "line"), paragraph(note, "note"), buttons);
    return item;
  }

  /** Play the sample in a voice. @param {Choice} choice @returns {Promise<Blob | undefined>} */
  #listen(choice) {
    return this.#try("Generating…", async (signal) => {
      const body = { ...choice, input: sample.value, response_format: "wav", stream: false };
      const file = await (await this.#api.speech(body, signal)).blob();
      this.#replay.load(file);
      await this.#replay.play();
      return file;
    });
  }

  async #design() {
    const file = await this.#listen({ model: model.value, instructions: description.value });
    this.#designed = file ?? this.#designed;
    keepButton.disabled = !this.#designed;
  }

  /** @param {AbortSignal} signal */
  async #add(signal = this.#work.signal) {
    const data = new FormData(addForm);
    data.set("consent", CONSENT);
    if (!transcript.value.trim()) data.delete("ref_text");
    if (this.#recorder.recording) data.set("audio_sample", this.#recorder.recording, this.#recorder.fileName);
    if (this.#model?.cloning) data.set("model", this.#model.id);
    await this.#api.postForm("/audio/voices", data, signal);
    addForm.reset();
    this.#recorder.take(null);
    this.#showStatus("Added", false);
    await this.#changed();
  }

  /** @param {Voice} voice */
  #delete(voice) {
    if (!confirm(`Delete the voice “${voice.name}”? Its recording is deleted, too.`)) return;
    void this.#try("Deleting…", async () => {
      await this.#api.remove(`/audio/voices/${encodeURIComponent(voice.id)}`);
      this.#showStatus("Deleted", false);
      await this.#changed();
    });
  }

  async #changed() {
    this.#listener.onChange();
    await this.#adapt();
  }

  /** @template T @param {string} status @param {(signal: AbortSignal) => Promise<T>} run @returns {Promise<T | undefined>} */
  async #try(status, run) {
    this.stop();
    this.#listener.onSpeech();
    clearAlert();
    const work = (this.#work = new AbortController());
    this.#showStatus(status, true);
    try {
      return await run(work.signal);
    } catch (error) {
      if (work.signal.aborted) return undefined;
      this.#showStatus("Failed", false);
      this.#listener.onError(error);
    }
    return undefined;
  }

  /** @param {string} text @param {boolean} isBusy */
  #showStatus(text, isBusy) {
    show("voices-status", text);
    element("voices-status", HTMLElement).classList.toggle("busy", isBusy);
  }
}
