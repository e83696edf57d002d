/** A message of the chat tab and its answer, which is written and spoken while it comes. */

import { Answer } from "./answer.js";
import { ServerError } from "./api.js";
import { SpokenAnswer } from "./spoken.js";

/**
 * @typedef {{role: string, content: string | {type: string, text?: string}[]}} Turn of Gradio's chatbot
 * @typedef {object} Message
 * @property {string} model @property {string} text @property {Turn[] | null} history
 * @property {string} speaker JSON of `model` and `voice`, or "" for silence
 */

export class Conversation {
  state = "connecting";

  #answer;
  #message;
  #spoken;

  /**
   * Made in a click, since browsers allow sound only then.
   * @param {import("./api.js").Api} api @param {import("./player.js").Player} player
   * @param {Message} message @param {(text: string) => void} onText is given the answer so far
   */
  constructor(api, player, message, onText) {
    this.#message = message;
    this.#spoken = message.speaker ? new SpokenAnswer(player) : null;
    this.#answer = new Answer(api, this.#spoken, () => {
      this.state = "playing";
      onText(this.#answer.text);
    });
  }

  get isActive() {
    return this.state === "connecting" || this.state === "playing";
  }

  get firstAudioMs() {
    return this.#answer.firstAudioMs;
  }

  stop() {
    if (!this.isActive) return;
    this.state = "stopped";
    this.#answer.stop();
  }

  /** Return the conversation with the answer, of which a part may still be spoken. */
  async answer() {
    const { history, model, text, speaker } = this.#message;
    try {
      if (!text?.trim()) throw new ServerError("There is no message to send.");
      const messages = [...(history ?? []), { role: "user", content: text }].map(plain);
      const sound = { modalities: ["text", "audio"], audio: { ...JSON.parse(speaker || "{}"), format: "pcm16" } };
      await this.#answer.receive({ model, messages, stream: true, ...(speaker && sound) });
    } catch (error) {
      if (this.state !== "stopped") {
        this.state = "failed";
        throw error;
      }
    }
    void this.#end();
    const turns = [{ role: "user", content: text }, { role: "assistant", content: this.#answer.text }];
    return [...(history ?? []), ...turns.map(shown)];
  }

  async #end() {
    if (this.firstAudioMs !== null) await this.#spoken?.finish();
    if (this.isActive) this.state = "finished";
  }
}

/** @param {Turn} turn */
function plain({ role, content }) {
  const text = typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");
  return { role, content: text };
}

/** @param {{role: string, content: string}} turn as Gradio's chatbot wants it */
function shown({ role, content }) {
  return { role, metadata: {}, options: [], content: [{ type: "text", text: content }] };
}
