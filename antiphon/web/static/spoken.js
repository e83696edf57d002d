/** The sound of an answer in a chat: samples in base64, played as they come. */

import { PcmReader } from "./pcm.js";

/** What the API sends as pcm16. */
const RATE_HZ = 24000;

export class SpokenAnswer {
  receivedSamples = 0;
  playedSamples = 0;

  #isStopped = false;
  #reader = new PcmReader();
  /** @type {import("./player.js").Voice | null} */
  #voice = null;
  /** What came before the player was ready. @type {Float32Array[]} */
  #early = [];
  #opening;
  /** @type {() => void} */
  #markSilent = () => {};
  #silent = new Promise((resolve) => {
    this.#markSilent = () => resolve(undefined);
  });

  /** Made in a click, since browsers allow sound only then. @param {import("./player.js").Player} player */
  constructor(player) {
    this.#opening = this.#open(player);
    this.#opening.catch(() => {}); // reported by finish(), which awaits it
  }

  /** @param {string} data base64 of pcm16 */
  take(data) {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const samples = this.#reader.read(bytes);
    this.receivedSamples += samples.length;
    if (this.#isStopped) return;
    if (this.#voice) this.#voice.push(samples);
    else this.#early.push(samples);
  }

  /** Nothing more will come: wait until all has been heard, or stopped. */
  async finish() {
    await this.#opening;
    this.#voice?.finish();
    await this.#silent;
  }

  stop() {
    this.#isStopped = true;
    this.#early = [];
    this.#voice?.stop();
    this.#markSilent();
  }

  /** @param {import("./player.js").Player} player */
  async #open(player) {
    const voice = await player.open(RATE_HZ, ({ state, played }) => {
      this.playedSamples = played;
      if (state === "ended") this.#markSilent();
    });
    if (this.#isStopped) {
      voice.stop();
      return;
    }
    for (const samples of this.#early) voice.push(samples);
    this.#early = [];
    this.#voice = voice;
  }
}
