/**
 * Samples on their way from the network to the loudspeaker: pushed in chunks of any size, pulled in
 * blocks. It holds back until a little is buffered, and counts each time it runs dry.
 */

/** @typedef {"waiting" | "playing" | "ended"} QueueState */

const START_S = 0.12;
const FIRST_RESTART_S = 0.16;
const LONGEST_RESTART_S = 0.64;

export class SampleQueue {
  /** @type {QueueState} */
  state = "waiting";
  /** Samples that have been pulled. */
  played = 0;
  /** How often playback had to wait for the network. */
  underruns = 0;

  /** @type {Float32Array[]} */
  #chunks = [];
  #offset = 0;
  #buffered = 0;
  #complete = false;
  #stopping = false;
  #wanted;
  #restart;
  #longestRestart;

  /** @param {number} sampleRateHz */
  constructor(sampleRateHz) {
    this.#wanted = Math.round(START_S * sampleRateHz);
    this.#restart = Math.round(FIRST_RESTART_S * sampleRateHz);
    this.#longestRestart = Math.round(LONGEST_RESTART_S * sampleRateHz);
  }

  /** @param {Float32Array} chunk owned by the queue from now on */
  push(chunk) {
    if (chunk.length === 0) return;
    this.#chunks.push(chunk);
    this.#buffered += chunk.length;
  }

  /** Nothing more will be pushed. */
  finish() {
    this.#complete = true;
  }

  /** Fade out within the next block, and end. */
  stop() {
    this.#complete = true;
    this.#stopping = true;
  }

  /**
   * Fill a block, with silence where there is nothing to play.
   * @param {Float32Array} block
   */
  pull(block) {
    if (this.state === "waiting" && this.#ready()) this.state = "playing";
    const filled = this.state === "playing" ? this.#copyTo(block) : 0;
    block.fill(0, filled);
    if (this.#stopping) this.#fadeAndEmpty(block);
    if (filled < block.length && this.state !== "ended") this.#ranDry();
  }

  #ready() {
    return this.#buffered >= this.#wanted || (this.#complete && this.#buffered > 0);
  }

  /** @param {Float32Array} block @returns {number} samples copied */
  #copyTo(block) {
    let filled = 0;
    while (filled < block.length && this.#chunks.length > 0) {
      const chunk = this.#chunks[0];
      const count = Math.min(chunk.length - this.#offset, block.length - filled);
      block.set(chunk.subarray(this.#offset, this.#offset + count), filled);
      filled += count;
      this.#offset += count;
      if (this.#offset === chunk.length) {
        this.#chunks.shift();
        this.#offset = 0;
      }
    }
    this.#buffered -= filled;
    this.played += filled;
    return filled;
  }

  /** A sudden cut would click. @param {Float32Array} block */
  #fadeAndEmpty(block) {
    for (let i = 0; i < block.length; i += 1) block[i] *= 1 - (i + 1) / block.length;
    this.#chunks = [];
    this.#buffered = 0;
    this.state = "ended";
  }

  #ranDry() {
    if (this.#complete && this.#buffered === 0) {
      this.state = "ended";
    } else if (this.state === "playing") {
      this.state = "waiting";
      this.underruns += 1;
      this.#wanted = this.#restart;
      this.#restart = Math.min(2 * this.#restart, this.#longestRestart);
    }
  }
}
