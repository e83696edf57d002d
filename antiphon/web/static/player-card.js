/** The card of an utterance: its waveform, in which one seeks, its figures and its file. */

import { Replay } from "./replay.js";
import { fileName } from "./snippets.js";
import { clearAlert, clock, element, offer, show, showNumbers } from "./view.js";
import { Peaks, Waveform } from "./waveform.js";

/** @typedef {import("./utterance.js").Utterance} Utterance */

const FORMAT_KEPT = "wav";

const playButton = element("play", HTMLButtonElement);
const seekBar = element("seek", HTMLInputElement);
const format = element("format", HTMLSelectElement);
const downloadButton = element("download", HTMLButtonElement);

export class PlayerCard {
  /** @type {Utterance | null} */
  #shown = null;
  #isReplayed = false;
  #isDrawing = false;
  #nothing = new Peaks(1);
  /** @type {AbortController | null} */
  #download = null;
  #replay = new Replay(() => this.refresh());
  #waveform = new Waveform(element("wave", HTMLCanvasElement), () => this.#requestDrawing());
  #api;
  #report;

  /** @param {import("./api.js").Api} api @param {(error: unknown) => void} report */
  constructor(api, report) {
    this.#api = api;
    this.#report = report;
    playButton.addEventListener("click", () => void this.toggle().catch(report));
    seekBar.addEventListener("input", () => void this.#seek(seekBar.valueAsNumber).catch(report));
    downloadButton.addEventListener("click", () => void this.#save());
  }

  /** @param {Utterance} utterance */
  show(utterance) {
    this.stop();
    this.#isReplayed = false;
    this.#shown = utterance;
    if (!utterance.isComplete) this.#waveform.reset();
    this.refresh();
  }

  stop() {
    this.#replay.pause();
  }

  /** Play what is shown, or pause it. */
  async toggle() {
    if (this.#isPlaying) {
      this.#takeOver();
      this.#replay.pause();
    } else {
      this.#takeOver();
      await this.#replay.play();
    }
  }

  /** Called when what is shown has changed. */
  refresh() {
    const isKept = Boolean(this.#shown?.isComplete && this.#shown.receivedSamples);
    playButton.disabled = seekBar.disabled = !isKept;
    playButton.textContent = isKept && this.#isPlaying ? "Pause" : "Play";
    for (const id of ["numbers", "save"]) {
      element(id, HTMLElement).hidden &&= !this.#shown?.receivedSamples;
    }
    if (this.#shown) show("seed-used", String(this.#shown.body.seed));
    this.#requestDrawing();
  }

  get #isPlaying() {
    return this.#isReplayed ? this.#replay.isPlaying : (this.#shown?.isActive ?? false);
  }

  get #positionS() {
    return this.#isReplayed ? this.#replay.positionS : (this.#shown?.positionS ?? 0);
  }

  /** Play from the recording from now on; a live utterance goes on where it is. */
  #takeOver() {
    if (this.#isReplayed || !this.#shown?.isComplete) return;
    const fromS = this.#shown.isActive ? this.#shown.positionS : 0;
    this.#shown.handOver();
    this.#replay.load(this.#shown.recording.wav);
    this.#replay.positionS = fromS;
    this.#isReplayed = true;
  }

  /** @param {number} positionS */
  async #seek(positionS) {
    const isPaused = this.#isReplayed && !this.#replay.isPlaying && !this.#replay.hasEnded;
    this.#takeOver();
    this.#replay.positionS = positionS;
    if (!isPaused) await this.#replay.play();
  }

  #requestDrawing() {
    if (this.#isDrawing) return;
    this.#isDrawing = true;
    requestAnimationFrame(() => {
      this.#isDrawing = false;
      this.#draw();
    });
  }

  #draw() {
    const utterance = this.#shown;
    const positionS = this.#positionS;
    const peaks = utterance?.recording.peaks ?? this.#nothing;
    const isComplete = utterance?.isComplete ?? false;
    const isMoving = this.#waveform.draw(peaks, { positionS, isComplete });
    if (utterance) showNumbers(utterance);
    show("position", clock(positionS));
    show("duration", clock(peaks.durationS));
    seekBar.max = String(peaks.durationS);
    seekBar.valueAsNumber = positionS;
    if (this.#isPlaying || isMoving) this.#requestDrawing();
    else seekBar.setAttribute("aria-valuetext", `${clock(positionS)} of ${clock(peaks.durationS)}`);
  }

  /** Save the audio as it was received; other formats come from the server, by the same seed. */
  async #save() {
    if (this.#download || !this.#shown) {
      this.#download?.abort();
      return;
    }
    const { body, recording } = this.#shown;
    const wanted = format.value || FORMAT_KEPT;
    const name = fileName({ response_format: wanted });
    if (wanted === "wav") return offer(recording.wav, name);
    if (wanted === "pcm") return offer(recording.pcm, name);
    const download = (this.#download = new AbortController());
    clearAlert();
    downloadButton.textContent = "Cancel";
    try {
      const request = { ...body, response_format: wanted, stream: false };
      offer(await (await this.#api.speech(request, download.signal)).blob(), name);
    } catch (error) {
      if (!download.signal.aborted) this.#report(error);
    } finally {
      this.#download = null;
      downloadButton.textContent = "Download";
    }
  }
}
