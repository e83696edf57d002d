/** The audio thread's side of the player: pulls blocks from a queue and tells how far it is. */

import { SampleQueue } from "./sample-queue.js";

const REPORT_EVERY_S = 0.02;

class SpeechProcessor extends AudioWorkletProcessor {
  #queue = new SampleQueue(sampleRate);
  #nextReportAt = 0;
  /** @type {import("./sample-queue.js").QueueState} */
  #reportedState = "waiting";

  constructor() {
    super();
    this.port.onmessage = ({ data }) => {
      if (data === "finish") this.#queue.finish();
      else if (data === "stop") this.#queue.stop();
      else this.#queue.push(data);
    };
  }

  /** @param {Float32Array[][]} _inputs @param {Float32Array[][]} outputs */
  process(_inputs, outputs) {
    this.#queue.pull(outputs[0][0]);
    const { state, played, underruns } = this.#queue;
    if (state !== this.#reportedState || currentTime >= this.#nextReportAt) {
      this.port.postMessage({ state, played, underruns });
      this.#reportedState = state;
      this.#nextReportAt = currentTime + REPORT_EVERY_S;
    }
    return state !== "ended";
  }
}

registerProcessor("speech", SpeechProcessor);
