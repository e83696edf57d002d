/** Draws the loudness of an utterance as it arrives, and how much of it has been heard. */

const BIN_S = 0.01;
const SHORTEST_VIEW_S = 4;
const BAR_PX = 3;
const GAP_PX = 2;
const EASE = 0.18;

/** The loudest sample of every 10 ms. */
export class Peaks {
  /** @type {number[]} */
  bins = [];
  #binSamples = 1;
  #inBin = 0;
  #loudest = 0;

  /** @param {number} sampleRateHz */
  constructor(sampleRateHz) {
    this.#binSamples = Math.max(1, Math.round(sampleRateHz * BIN_S));
  }

  /** @param {Float32Array} samples */
  add(samples) {
    for (const sample of samples) {
      const level = Math.abs(sample);
      if (level > this.#loudest) this.#loudest = level;
      this.#inBin += 1;
      if (this.#inBin === this.#binSamples) {
        this.bins.push(this.#loudest);
        this.#inBin = 0;
        this.#loudest = 0;
      }
    }
  }

  get durationS() {
    return this.bins.length * BIN_S;
  }

  /** @param {number} fromS @param {number} toS */
  loudest(fromS, toS) {
    const first = Math.floor(fromS / BIN_S);
    const last = Math.max(first + 1, Math.floor(toS / BIN_S));
    let loudest = 0;
    for (let i = first; i < last && i < this.bins.length; i += 1) {
      loudest = Math.max(loudest, this.bins[i]);
    }
    return loudest;
  }
}

export class Waveform {
  #canvas;
  #context;
  #viewS = SHORTEST_VIEW_S;
  #calm = matchMedia("(prefers-reduced-motion: reduce)");
  /** @type {Record<"heard" | "coming" | "empty", string>} */
  #colors = { heard: "", coming: "", empty: "" };

  /** @param {HTMLCanvasElement} canvas @param {() => void} onResize asks for a new drawing */
  constructor(canvas, onResize) {
    this.#canvas = canvas;
    this.#context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const refresh = () => {
      this.#fit();
      onResize();
    };
    new ResizeObserver(refresh).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
    onOtherPixels(refresh);
  }

  /**
   * @param {Peaks} peaks
   * @param {{positionS: number, isComplete: boolean}} progress
   * @returns {boolean} whether the picture is still moving of itself
   */
  draw(peaks, { positionS, isComplete }) {
    const targetS = isComplete && peaks.durationS ? peaks.durationS : Math.max(SHORTEST_VIEW_S, peaks.durationS);
    const distanceS = targetS - this.#viewS;
    const arrives = this.#calm.matches || Math.abs(distanceS) < targetS / 1000;
    this.#viewS = arrives ? targetS : this.#viewS + distanceS * EASE;
    this.#paint(peaks, positionS);
    return !arrives;
  }

  /** Start with an empty view again. */
  reset() {
    this.#viewS = SHORTEST_VIEW_S;
  }

  /** One canvas pixel for each pixel of the screen. */
  #fit() {
    const { clientWidth, clientHeight } = this.#canvas;
    const ratio = window.devicePixelRatio || 1;
    this.#canvas.width = Math.round(clientWidth * ratio);
    this.#canvas.height = Math.round(clientHeight * ratio);
    this.#context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(this.#canvas);
    for (const name of /** @type {const} */ (["heard", "coming", "empty"])) {
      this.#colors[name] = style.getPropertyValue(`--wave-${name}`).trim();
    }
  }

  /** @param {Peaks} peaks @param {number} positionS */
  #paint(peaks, positionS) {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const context = this.#context;
    const count = Math.max(1, Math.floor((width + GAP_PX) / (BAR_PX + GAP_PX)));
    const barS = this.#viewS / count;
    context.clearRect(0, 0, width, height);
    for (let bar = 0; bar < count; bar += 1) {
      const fromS = bar * barS;
      const isThere = fromS < peaks.durationS;
      // The ear hears quiet speech better than a linear picture shows it.
      const level = isThere ? Math.min(1, peaks.loudest(fromS, fromS + barS)) ** 0.7 : 0;
      const tall = Math.max(BAR_PX, level * (height - 8));
      context.fillStyle = this.#colors[!isThere ? "empty" : fromS < positionS ? "heard" : "coming"];
      context.beginPath();
      context.roundRect(bar * (BAR_PX + GAP_PX), (height - tall) / 2, BAR_PX, tall, BAR_PX / 2);
      context.fill();
    }
    if (positionS > 0 && positionS < peaks.durationS) {
      context.fillStyle = this.#colors.heard;
      context.fillRect(Math.round((positionS / this.#viewS) * width) - 1, 0, 2, height);
    }
  }
}

/** Call back whenever the page is zoomed or moved to another kind of screen. @param {() => void} callback */
function onOtherPixels(callback) {
  const present = matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
  const changed = () => {
    callback();
    onOtherPixels(callback);
  };
  present.addEventListener("change", changed, { once: true });
}
