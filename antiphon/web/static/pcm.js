/** Bytes to samples, wherever the network cuts them. */

/** Reads signed 16-bit little-endian PCM; a sample cut in two waits for its other half. */
export class PcmReader {
  /** @type {number | null} */
  #half = null;
  #numChannels;
  /** The channel of the next sample. */
  #channel = 0;

  /** @param {number} [numChannels] those of the stream, interleaved; the first is read */
  constructor(numChannels = 1) {
    this.#numChannels = numChannels;
  }

  /** Whether the stream so far ends in the middle of a sample. */
  get isTorn() {
    return this.#half !== null || this.#channel !== 0;
  }

  /** @param {Uint8Array} bytes @returns {Float32Array} samples in [-1, 1) */
  read(bytes) {
    if (bytes.length === 0) return new Float32Array(0);
    const carried = this.#half === null ? 0 : 1;
    const samples = new Float32Array((bytes.length + carried) >> 1);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let next = 0;
    if (this.#half !== null) samples[next++] = ((view.getInt8(0) << 8) | this.#half) / 32768;
    let at = carried;
    for (; at + 1 < bytes.length; at += 2) samples[next++] = view.getInt16(at, true) / 32768;
    this.#half = at < bytes.length ? bytes[at] : null;
    if (this.#numChannels === 1) return samples;
    return samples.filter(() => {
      const isFirst = this.#channel === 0;
      this.#channel = (this.#channel + 1) % this.#numChannels;
      return isFirst;
    });
  }
}
