/** Plays whole recordings, from any position. */

export class Replay {
  #audio = new Audio();

  /** @param {() => void} onChange */
  constructor(onChange) {
    for (const name of ["play", "pause", "ended", "seeked"]) {
      this.#audio.addEventListener(name, onChange);
    }
  }

  get isPlaying() {
    return !this.#audio.paused;
  }

  get hasEnded() {
    return this.#audio.ended;
  }

  get positionS() {
    return this.#audio.currentTime;
  }

  set positionS(positionS) {
    this.#audio.currentTime = positionS;
  }

  /** @param {Blob} file */
  load(file) {
    this.stop();
    this.#audio.src = URL.createObjectURL(file);
  }

  /** Go on; from the start, if it had ended. */
  async play() {
    await this.#audio.play().catch((error) => {
      if (error.name !== "AbortError") throw error; // paused before it began
    });
  }

  pause() {
    this.#audio.pause();
  }

  /** Forget the recording. */
  stop() {
    this.pause();
    URL.revokeObjectURL(this.#audio.src);
    this.#audio.removeAttribute("src");
  }
}
