/**
 * Plays samples as they arrive. One AudioContext at the stream's own sample rate, so that nothing is
 * resampled here; one node for each utterance.
 */

import { SampleQueue } from "./sample-queue.js";

/**
 * @typedef {object} Progress
 * @property {import("./sample-queue.js").QueueState} state
 * @property {number} played samples that have gone to the loudspeaker
 * @property {number} underruns
 */

/**
 * @typedef {object} Voice one utterance being played
 * @property {(samples: Float32Array) => void} push takes the samples away from the caller
 * @property {() => void} finish nothing more will come
 * @property {() => void} stop be silent at once
 */

const FALLBACK_BLOCK = 2048;
const REST_AFTER_MS = 2000;

export class Player {
  /** @type {AudioContext | null} */
  #context = null;
  /** @type {Promise<void>} */
  #loaded = Promise.resolve();
  #restTimer = 0;

  /**
   * Start the audio device. Called from a click, since browsers allow sound only then.
   * @param {number} sampleRateHz
   */
  prepare(sampleRateHz) {
    if (this.#context?.sampleRate !== sampleRateHz) {
      void this.#context?.close();
      this.#context = new AudioContext({ sampleRate: sampleRateHz, latencyHint: "interactive" });
      // A page from another host without TLS has no worklets.
      this.#loaded = this.#context.audioWorklet
        ? this.#context.audioWorklet.addModule(new URL("player-worklet.js", import.meta.url).href)
        : Promise.resolve();
      this.#loaded.catch(() => {}); // reported by open(), which awaits it
    }
    clearTimeout(this.#restTimer);
    void this.#context.resume();
  }

  /**
   * @param {number} sampleRateHz
   * @param {(progress: Progress) => void} onProgress
   * @returns {Promise<Voice>}
   */
  async open(sampleRateHz, onProgress) {
    this.prepare(sampleRateHz);
    await this.#loaded;
    const context = /** @type {AudioContext} */ (this.#context);
    return context.audioWorklet ? openWorklet(context, onProgress) : openFallback(context, onProgress);
  }

  /** What the device takes from a sample's leaving the queue to its being heard. */
  get latencyS() {
    return this.#context?.outputLatency || this.#context?.baseLatency || 0;
  }

  /** Let the device sleep, once it has played what it holds. */
  rest() {
    clearTimeout(this.#restTimer);
    this.#restTimer = window.setTimeout(() => void this.#context?.suspend(), REST_AFTER_MS);
  }
}

/** @param {AudioContext} context @param {(progress: Progress) => void} onProgress @returns {Voice} */
function openWorklet(context, onProgress) {
  const node = new AudioWorkletNode(context, "speech", { numberOfInputs: 0, outputChannelCount: [1] });
  node.connect(context.destination);
  node.port.onmessage = ({ data }) => {
    if (data.state === "ended") node.disconnect();
    onProgress(data);
  };
  return {
    push: (samples) => node.port.postMessage(samples, [samples.buffer]),
    finish: () => node.port.postMessage("finish"),
    stop: () => node.port.postMessage("stop"),
  };
}

/** @param {AudioContext} context @param {(progress: Progress) => void} onProgress @returns {Voice} */
function openFallback(context, onProgress) {
  const queue = new SampleQueue(context.sampleRate);
  const node = context.createScriptProcessor(FALLBACK_BLOCK, 0, 1);
  node.onaudioprocess = ({ outputBuffer }) => {
    queue.pull(outputBuffer.getChannelData(0));
    const { state, played, underruns } = queue;
    if (state === "ended") {
      node.onaudioprocess = null;
      node.disconnect();
    }
    onProgress({ state, played, underruns });
  };
  node.connect(context.destination);
  return {
    push: (samples) => queue.push(samples),
    finish: () => queue.finish(),
    stop: () => queue.stop(),
  };
}
