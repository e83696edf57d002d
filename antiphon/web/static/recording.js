/** The audio of an utterance as it was received, kept for replay and download. */

import { Peaks } from "./waveform.js";

const BYTES_PER_SAMPLE = 2;
const HEADER_BYTES = 44;
const PCM = 1;

export class Recording {
  numBytes = 0;
  /** @type {BlobPart[]} */
  #pieces = [];

  /** @param {number} sampleRateHz @param {number} numChannels */
  constructor(sampleRateHz, numChannels) {
    this.sampleRateHz = sampleRateHz;
    this.numChannels = numChannels;
    this.peaks = new Peaks(sampleRateHz);
  }

  /** @param {number} sampleRateHz @param {number} numChannels @param {Blob} pcm @param {number[]} bins of its peaks */
  static restored(sampleRateHz, numChannels, pcm, bins) {
    const recording = new Recording(sampleRateHz, numChannels);
    recording.#pieces = [pcm];
    recording.numBytes = pcm.size;
    recording.peaks.bins = bins;
    return recording;
  }

  /** @param {Uint8Array<ArrayBuffer>} bytes 16-bit little-endian PCM @param {Float32Array} samples its first channel */
  add(bytes, samples) {
    this.#pieces.push(bytes);
    this.numBytes += bytes.length;
    this.peaks.add(samples);
  }

  /** The samples without a header. */
  get pcm() {
    const whole = new Blob(this.#pieces);
    this.#pieces = [whole]; // the browser may keep it on the disk
    return whole.slice(0, this.numBytes - (this.numBytes % this.#frameBytes), "audio/pcm");
  }

  get wav() {
    const { pcm } = this;
    return new Blob([this.#header(pcm.size), pcm], { type: "audio/wav" });
  }

  get #frameBytes() {
    return BYTES_PER_SAMPLE * this.numChannels;
  }

  /** @param {number} numBytes of samples */
  #header(numBytes) {
    const header = new DataView(new ArrayBuffer(HEADER_BYTES));
    for (const [name, at] of /** @type {const} */ ([["RIFF", 0], ["WAVEfmt ", 8], ["data", 36]])) {
      [...name].forEach((letter, i) => header.setUint8(at + i, letter.charCodeAt(0)));
    }
    header.setUint32(4, HEADER_BYTES - 8 + numBytes, true);
    header.setUint32(16, 16, true); // bytes of the format
    header.setUint16(20, PCM, true);
    header.setUint16(22, this.numChannels, true);
    header.setUint32(24, this.sampleRateHz, true);
    header.setUint32(28, this.sampleRateHz * this.#frameBytes, true);
    header.setUint16(32, this.#frameBytes, true);
    header.setUint16(34, 8 * BYTES_PER_SAMPLE, true);
    header.setUint32(40, numBytes, true);
    return header;
  }
}
