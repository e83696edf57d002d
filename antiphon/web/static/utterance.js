/** One utterance, from the click to its end: asks, receives, plays and measures. */

import { ServerError, sampleRateOf } from "./api.js";
import { PcmReader } from "./pcm.js";
import { Recording } from "./recording.js";

/**
 * @typedef {"connecting" | "playing" | "finished" | "stopped" | "broken" | "failed"} State
 *   broken: the stream ended before the speech did; failed: not even the first sample came
 * @typedef {{startedMs: number, body: import("./api.js").SpeechBody, figures: object, numChannels: number, pcm: Blob, bins: number[]}} KeptUtterance
 */

// A reader who stops reading slows the server down: memory here stays bounded for any text.
const MOST_SECONDS_AHEAD = 120;
const LOOK_AGAIN_MS = 200;
const LONGEST_REPORT_GAP_S = 0.03;
const FIGURES = /** @type {const} */ ([
  ...["sampleRateHz", "receivedSamples", "underruns"],
  ...["firstAudioMs", "playbackMs", "generationMs", "generatedSamples", "unspoken"],
]);

export class Utterance {
  /** @type {State} */
  state = "connecting";
  sampleRateHz = 0;
  receivedSamples = 0;
  playedSamples = 0;
  underruns = 0;
  /** From the click to the first audio bytes. @type {number | null} */
  firstAudioMs = null;
  /** From the click to the first sample that is heard. @type {number | null} */
  playbackMs = null;
  /** From the click to the latest bytes that we did not ask the server to hold back. */
  generationMs = 0;
  /** Samples that had come by then. */
  generatedSamples = 0;
  /** What the voice leaves out of the text. */
  unspoken = "";
  /** Whether all audio has come. */
  isComplete = false;
  /** Milliseconds since 1970. */
  startedMs = Date.now();
  /** @type {ServerError | null} */
  failure = null;
  /** What has been received. */
  recording = new Recording(0, 1);

  #clickedAtMs = performance.now();
  #aborter = new AbortController();
  #reportedAtMs = 0;
  #isMoving = false;
  #reader = new PcmReader();
  #hasHeldBack = false;
  #source;
  #player;
  #onChange;
  /** @type {import("./player.js").Voice | null} */
  #voice = null;
  /** What came before the player was ready. @type {Float32Array[]} */
  #early = [];
  /** @type {() => void} */
  #markSilent = () => {};
  #silent = new Promise((resolve) => {
    this.#markSilent = () => resolve(undefined);
  });

  /**
   * @param {import("./api.js").SpeechBody} body the request, in any format
   * @param {{stream: import("./api.js").Api["stream"]}} source answers it with PCM
   * @param {import("./player.js").Player} player
   * @param {() => void} onChange
   */
  constructor(body, source, player, onChange) {
    this.body = body;
    this.#source = source;
    this.#player = player;
    this.#onChange = onChange;
  }

  /**
   * An utterance of an earlier visit.
   * @param {KeptUtterance} kept @param {import("./api.js").Api} api @param {import("./player.js").Player} player
   */
  static restored({ body, figures, numChannels, pcm, bins }, api, player) {
    const utterance = new Utterance(body, api, player, () => {});
    Object.assign(utterance, figures, { isComplete: true });
    utterance.recording = Recording.restored(utterance.sampleRateHz, numChannels, pcm, bins);
    return utterance;
  }

  /** What a later visit shows and plays it by. @returns {KeptUtterance} */
  get kept() {
    const { startedMs, body, recording } = this;
    const figures = { ...Object.fromEntries(FIGURES.map((name) => [name, this[name]])), state: this.outcome };
    return { startedMs, body, figures, numChannels: recording.numChannels, pcm: recording.pcm, bins: recording.peaks.bins };
  }

  get isActive() {
    return this.state === "connecting" || this.state === "playing";
  }

  /** The state in which it ends, if nothing stops what still plays. */
  get outcome() {
    if (!this.isActive) return this.state;
    return this.failure ? "broken" : "finished";
  }

  /** Generation time by audio time; below 1 is faster than real time. */
  get realTimeFactor() {
    return this.generatedSamples
      ? this.generationMs / 1000 / (this.generatedSamples / this.sampleRateHz)
      : null;
  }

  /** Seconds that have been heard, as of now. */
  get positionS() {
    if (!this.sampleRateHz) return 0;
    const playedS = this.playedSamples / this.sampleRateHz;
    if (this.state !== "playing" || !this.#isMoving) return playedS;
    // Between two reports of the audio thread the clock goes on, but never far.
    const sinceS = Math.min((performance.now() - this.#reportedAtMs) / 1000, LONGEST_REPORT_GAP_S);
    return Math.max(0, playedS + sinceS - this.#player.latencyS);
  }

  /** Ends every wait; the server sees the connection close and stops its work. */
  stop() {
    if (!this.isActive) return;
    this.#aborter.abort();
    this.#voice?.stop();
    this.#end("stopped");
  }

  /** End the playback of an utterance that has been received: its recording is played instead. */
  handOver() {
    if (!this.isActive || !this.isComplete) return;
    this.#voice?.stop();
    this.#end(this.outcome);
  }

  /** @param {import("./api.js").SpeechBody} recorded the fields of a recording */
  async run(recorded) {
    this.body = { ...this.body, ...recorded };
    let opening = Promise.resolve();
    try {
      const response = await this.#source.stream(this.body, this.#aborter.signal, (words) => {
        this.unspoken = [this.unspoken, ...words].filter(Boolean).join(", ");
      });
      const numChannels = Number(response.headers.get("X-Channels") ?? 1);
      this.sampleRateHz = sampleRateOf(response);
      this.#reader = new PcmReader(numChannels);
      this.recording = new Recording(this.sampleRateHz, numChannels);
      opening = this.#open();
      await Promise.all([opening, this.#receive(response)]);
    } catch (error) {
      if (this.#aborter.signal.aborted) return;
      this.failure = error instanceof ServerError ? error : new ServerError(String(error));
    }
    const isOpen = await opening.then(() => true, () => false);
    if (!this.isActive) return;
    if (!isOpen || this.receivedSamples === 0) {
      this.#aborter.abort();
      this.#voice?.stop();
      this.#end("failed");
      return;
    }
    this.isComplete = true;
    this.#voice?.finish();
    this.#onChange();
    await this.#silent;
    if (this.isActive) this.#end(this.outcome);
  }

  async #open() {
    const voice = await this.#player.open(this.sampleRateHz, (progress) => this.#onProgress(progress));
    if (!this.isActive) {
      voice.stop(); // opened after the click on Stop
      return;
    }
    for (const samples of this.#early) voice.push(samples);
    this.#early = [];
    this.#voice = voice;
  }

  /** @param {Response} response */
  async #receive(response) {
    const stream = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (response.body).getReader();
    for (;;) {
      const { done, value } = await this.#read(stream);
      if (done) break;
      this.#take(value);
      await this.#holdBack();
    }
    if (this.receivedSamples === 0) throw new ServerError("The server sent no audio.");
    if (this.#reader.isTorn) throw this.#broken();
  }

  /** @param {ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>} stream */
  async #read(stream) {
    try {
      return await stream.read();
    } catch {
      throw this.#broken();
    }
  }

  /** @param {Uint8Array<ArrayBuffer>} bytes */
  #take(bytes) {
    if (bytes.length === 0) return;
    const nowMs = performance.now() - this.#clickedAtMs;
    const samples = this.#reader.read(bytes);
    this.firstAudioMs ??= nowMs;
    this.receivedSamples += samples.length;
    if (!this.#hasHeldBack) {
      this.generationMs = nowMs;
      this.generatedSamples = this.receivedSamples;
    }
    this.recording.add(bytes, samples);
    if (this.#voice) this.#voice.push(samples);
    else this.#early.push(samples);
    if (this.state === "connecting") {
      this.state = "playing";
      this.#onChange();
    }
  }

  async #holdBack() {
    const most = MOST_SECONDS_AHEAD * this.sampleRateHz;
    while (this.receivedSamples - this.playedSamples > most && this.isActive) {
      this.#hasHeldBack = true;
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
    }
  }

  /** @param {import("./player.js").Progress} progress */
  #onProgress({ state, played, underruns }) {
    this.#reportedAtMs = performance.now();
    this.#isMoving = state === "playing";
    if (played > 0 && this.playbackMs === null) {
      this.playbackMs = this.#reportedAtMs - this.#clickedAtMs + 1000 * this.#player.latencyS;
    }
    this.playedSamples = played;
    this.underruns = underruns;
    if (state === "ended") this.#markSilent();
  }

  #broken() {
    if (this.receivedSamples === 0) return new ServerError("The stream broke before any audio came.");
    const seconds = (this.receivedSamples / this.sampleRateHz).toFixed(1);
    return new ServerError(`The stream broke after ${seconds} s of audio: what you hear is incomplete.`);
  }

  /** @param {State} state */
  #end(state) {
    this.state = state;
    this.isComplete = true;
    this.#markSilent();
    this.#onChange();
  }
}
