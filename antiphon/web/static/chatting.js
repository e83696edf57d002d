/** The tab of chats: a conversation whose answers are shown, and spoken, as they come. */

import { Answer } from "./answer.js";
import { ChatForm } from "./chat-form.js";
import { ChatLog } from "./chat-log.js";
import { Player } from "./player.js";
import { SpokenAnswer } from "./spoken.js";
import { canMake } from "./tasks.js";
import { clearAlert, milliseconds } from "./view.js";

/** @typedef {{said: string, answer: Answer, asked: import("./chat-log.js").Message, shown: import("./chat-log.js").Message}} Turn */

export class Chatting {
  /** The sound of the latest answer that was asked for with sound. @type {SpokenAnswer | null} */
  spoken = null;

  #api;
  #listener;
  #player = new Player();
  #log = new ChatLog();
  /** @type {Turn[]} */
  #turns = [];
  /** The one that is being answered, or spoken. @type {Turn | null} */
  #active = null;

  /**
   * @param {import("./api.js").Api} api
   * @param {{onSpeech: () => void, onError: (error: unknown, action?: {label: string, run: () => void}) => void}} listener
   *   onSpeech: the page's other sounds are to end
   */
  constructor(api, listener) {
    this.#api = api;
    this.#listener = listener;
    this.form = new ChatForm({
      onSend: () => void this.#send(),
      onStop: () => this.stop(),
      onNew: () => this.#forget(),
    });
  }

  /** @param {import("./api.js").Model[]} models */
  async setModels(models) {
    this.form.setModels(models);
    if (!models.some((model) => canMake(model, "chat"))) return;
    const speakers = models.filter((model) => canMake(model, "speech"));
    try {
      const lists = speakers.map(async ({ id }) => ({
        model: id,
        voices: await this.#api.voices(id),
      }));
      this.form.setVoices(await Promise.all(lists));
    } catch (error) {
      this.#listener.onError(error, { label: "Try again", run: () => void this.setModels(models) });
    }
  }

  /** What was said stays, and is part of the conversation. */
  stop() {
    if (!this.#active) return;
    this.#active.answer.stop();
    this.#end(this.#active, "Stopped");
  }

  async #send() {
    this.stop();
    clearAlert();
    const turn = this.#begin(this.form.takeText());
    const { answer } = turn;
    try {
      await answer.receive(this.#body(turn));
      if (turn === this.#active && answer.firstAudioMs !== null) {
        this.#annotate(turn, "");
        this.form.showStatus("Playing", true);
        await this.spoken?.finish();
      }
      if (turn === this.#active) this.#end(turn, "Finished");
    } catch (error) {
      if (turn !== this.#active) return;
      answer.stop();
      this.#end(turn, "Failed");
      if (!answer.text) this.#takeBack(turn);
      this.#listener.onError(error);
    }
  }

  /** @param {string} said @returns {Turn} */
  #begin(said) {
    this.spoken = null;
    if (this.form.speaks) {
      this.#listener.onSpeech();
      this.spoken = new SpokenAnswer(this.#player);
    }
    const asked = this.#log.add("You", said);
    const shown = this.#log.add("Model");
    shown.isBusy = true;
    const answer = new Answer(this.#api, this.spoken, (text) => {
      shown.write(text);
      this.form.showStatus("Answering…", true);
    });
    const turn = { said, answer, asked, shown };
    this.#turns.push(turn);
    this.#active = turn;
    this.form.showStatus("Waiting for the first token…", true);
    return turn;
  }

  /** The conversation up to a turn. Many models want roles to alternate: what was never answered is left out. @param {Turn} last */
  #body(last) {
    const before = this.#turns.filter((turn) => turn !== last && turn.answer.text);
    const messages = before.flatMap(({ said, answer }) => [
      { role: "user", content: said },
      { role: "assistant", content: answer.text },
    ]);
    messages.push({ role: "user", content: last.said });
    const { instructions } = this.form;
    if (instructions) messages.unshift({ role: "system", content: instructions });
    return { ...this.form.options(), messages, stream: true };
  }

  /** @param {Turn} turn @param {"Finished" | "Stopped" | "Failed"} how */
  #end(turn, how) {
    this.#active = null;
    this.#annotate(turn, how);
    this.form.showStatus(how, false);
    this.#player.rest();
  }

  /** @param {Turn} turn @param {string} how */
  #annotate({ answer, shown }, how) {
    const notes = [
      answer.firstTokenMs === null ? "" : `first token ${milliseconds(answer.firstTokenMs)}`,
      answer.firstAudioMs === null ? "" : `first audio ${milliseconds(answer.firstAudioMs)}`,
      answer.reason === "length" ? "ended at its most tokens" : "",
      how === "Stopped" ? "stopped" : "",
      how === "Failed" ? "incomplete" : "",
    ];
    shown.annotate(notes.filter(Boolean).join(" · "));
    shown.isBusy = false;
  }

  /** @param {Turn} turn of which nothing was answered */
  #takeBack(turn) {
    this.#turns = this.#turns.filter((each) => each !== turn);
    turn.asked.root.remove();
    turn.shown.root.remove();
    if (this.#turns.length === 0) this.#log.clear();
    this.form.giveBack(turn.said);
  }

  #forget() {
    this.stop();
    this.#turns = [];
    this.#log.clear();
    clearAlert();
    this.form.showStatus("Ready", false);
  }
}
