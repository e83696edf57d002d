/** The utterances of this visit: to be played, saved and repeated without being made again. */

import { button, clock, element, offer, paragraph } from "./view.js";

/** @typedef {import("./utterance.js").Utterance} Utterance */

/** An hour and a half of PCM at 24 kHz; beyond it the oldest are dropped. */
const MOST_BYTES = 256 * 2 ** 20;

const list = element("history-list", HTMLOListElement);

export class History {
  /** The newest first. @type {Utterance[]} */
  #kept = [];
  #listener;

  /** @param {{onPlay: (utterance: Utterance) => void, onReuse: (body: import("./api.js").SpeechBody) => void}} listener */
  constructor(listener) {
    this.#listener = listener;
    element("history-clear", HTMLButtonElement).addEventListener("click", () => {
      this.#kept = [];
      list.replaceChildren();
    });
  }

  /** Keep an utterance that has ended. @param {Utterance} utterance */
  add(utterance) {
    if (utterance.receivedSamples === 0 || this.#kept.includes(utterance)) return;
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
    const { body, recording, state } = utterance;
    const note = [
      body.voice ?? body.model,
      clock(recording.peaks.durationS),
      `seed ${body.seed}`,
      ...(state === "finished" ? [] : [state]),
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
