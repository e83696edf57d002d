/** The latest utterances: to be played, saved and repeated without being made again. */

import { HistoryStore } from "./history-store.js";
import { button, clock, element, offer, paragraph, show } from "./view.js";

/** @typedef {import("./utterance.js").Utterance} Utterance */
/** @typedef {import("./utterance.js").KeptUtterance} KeptUtterance */

/** An hour and a half of PCM at 24 kHz; beyond it the oldest are dropped. */
const MOST_BYTES = 256 * 2 ** 20;

const list = element("history-list", HTMLOListElement);

export class History {
  /** The newest first. @type {Utterance[]} */
  #kept = [];
  /** Those that were added, also if they have been cleared since. @type {WeakSet<Utterance>} */
  #added = new WeakSet();
  #store = new HistoryStore();
  #listener;

  /**
   * @param {{restored: (kept: KeptUtterance) => Utterance, onPlay: (utterance: Utterance) => void, onReuse: (body: import("./api.js").SpeechBody) => void}} listener
   *   restored: makes an utterance of what an earlier visit kept
   */
  constructor(listener) {
    this.#listener = listener;
    element("history-clear", HTMLButtonElement).addEventListener("click", () => {
      this.#kept = [];
      list.replaceChildren();
      void this.#store.clear();
    });
    void this.#restore();
  }

  async #restore() {
    const earlier = (await this.#store.all()).map(this.#listener.restored);
    this.#kept.push(...earlier);
    list.append(...earlier.map((utterance) => this.#entry(utterance)));
    if (await this.#store.isOpen()) show("history-hint", "The last 20, of at most 50 MB, stay in this browser until they are cleared.");
  }

  /** Keep an utterance that has been received; again at its end, for its last figures. @param {Utterance} utterance */
  add(utterance) {
    const isNew = !this.#added.has(utterance);
    if (utterance.receivedSamples === 0 || !(isNew || this.#kept.includes(utterance))) return;
    void this.#store.add(utterance.kept);
    if (!isNew) return;
    this.#added.add(utterance);
    this.#kept.unshift(utterance);
    list.prepend(this.#entry(utterance));
    while (this.#kept.length > 1 && this.#numBytes > MOST_BYTES) {
      this.#kept.pop();
      list.lastElementChild?.remove();
    }
  }

  get #numBytes() {
    return this.#kept.reduce((sum, { recording }) => sum + recording.numBytes, 0);
  }

  /** @param {Utterance} utterance */
  #entry(utterance) {
    const { body, recording, outcome } = utterance;
    const note = [
      body.voice ?? body.model,
      clock(recording.peaks.durationS),
      `seed ${body.seed}`,
      ...(outcome === "finished" ? [] : [outcome]),
    ].join(" · ");
    const buttons = document.createElement("div");
    buttons.className = "buttons";
    buttons.append(
      button("Play", () => this.#listener.onPlay(utterance)),
      button("Save", () => offer(recording.wav, "speech.wav")),
      button("Reuse", () => this.#listener.onReuse(body)),
    );
    for (const each of buttons.children) {
      each.setAttribute("aria-label", `${each.textContent}: ${String(body.input).slice(0, 60)}`);
    }
    const item = document.createElement("li");
    item.append(paragraph(String(body.input), "line"), paragraph(note, "note"), buttons);
    return item;
  }
}
