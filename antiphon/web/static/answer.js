/** One answer in a chat, from the click to its end: asks, receives, has it played, and measures. */

import { ServerError } from "./api.js";
import { serverSentEvents } from "./events.js";

export class Answer {
  text = "";
  /** Why the text ended, such as stop or length; empty until then. */
  reason = "";
  /** From the click to the first text. @type {number | null} */
  firstTokenMs = null;
  /** From the click to the first samples. @type {number | null} */
  firstAudioMs = null;

  #clickedAtMs = performance.now();
  #aborter = new AbortController();
  #api;
  #spoken;
  #onText;

  /**
   * @param {import("./api.js").Api} api
   * @param {import("./spoken.js").SpokenAnswer | null} spoken plays it
   * @param {(text: string) => void} onText is given each piece
   */
  constructor(api, spoken, onText) {
    this.#api = api;
    this.#spoken = spoken;
    this.#onText = onText;
  }

  get isStopped() {
    return this.#aborter.signal.aborted;
  }

  /** Ends every wait; the server sees the connection close and stops its work. */
  stop() {
    this.#aborter.abort();
    this.#spoken?.stop();
  }

  /** Receive all of it; what a stopped one throws is of no interest. @param {object} body */
  async receive(body) {
    const response = await this.#api.post("/chat/completions", body, this.#aborter.signal);
    try {
      for await (const event of serverSentEvents(response)) this.#take(event);
    } catch (error) {
      throw error instanceof ServerError ? error : new ServerError(`The answer broke off: ${error}`);
    }
    if (!this.reason) throw new ServerError("The answer broke off.");
  }

  /** @param {any} event a chat.completion.chunk, or an error */
  #take(event) {
    if (event.error) throw new ServerError(event.error.message, event.error);
    if (this.isStopped) return;
    const { delta = {}, finish_reason: reason } = event.choices?.[0] ?? {};
    const text = delta.content ?? delta.audio?.transcript ?? "";
    const nowMs = performance.now() - this.#clickedAtMs;
    if (text) {
      this.firstTokenMs ??= nowMs;
      this.text += text;
      this.#onText(text);
    }
    if (delta.audio?.data) {
      this.firstAudioMs ??= nowMs;
      this.#spoken?.take(delta.audio.data);
    }
    if (reason) this.reason = reason;
  }
}
