/** What was said in a chat, on the screen: text alone, whatever the text is. */

import { element } from "./view.js";

/** How far from its end the log may be and still follow what is added. */
const NEAR_PX = 48;

export class ChatLog {
  #log = element("chat-log", HTMLElement);

  /** @param {"You" | "Model"} who @param {string} [text] @returns {Message} */
  add(who, text = "") {
    const message = new Message(who, () => this.#follow());
    message.write(text);
    this.#log.append(message.root);
    this.#log.hidden = false;
    this.#log.scrollTop = this.#log.scrollHeight;
    return message;
  }

  clear() {
    this.#log.replaceChildren();
    this.#log.hidden = true;
  }

  /** Who reads further up is left there; called before something is added. */
  #follow() {
    const { scrollHeight, scrollTop, clientHeight } = this.#log;
    if (scrollHeight - scrollTop - clientHeight > NEAR_PX) return;
    requestAnimationFrame(() => (this.#log.scrollTop = this.#log.scrollHeight));
  }
}

export class Message {
  root = document.createElement("article");
  #text = document.createTextNode("");
  #note = document.createElement("p");
  #beforeChange;

  /** @param {"You" | "Model"} who @param {() => void} beforeChange */
  constructor(who, beforeChange) {
    this.#beforeChange = beforeChange;
    const name = document.createElement("h2");
    const words = document.createElement("p");
    name.textContent = who;
    words.className = "words";
    words.append(this.#text);
    this.#note.className = "note";
    this.root.className = who === "You" ? "said own" : "said";
    this.root.append(name, words, this.#note);
  }

  /** A screen reader waits until a busy one is whole. @param {boolean} isBusy */
  set isBusy(isBusy) {
    this.root.setAttribute("aria-busy", String(isBusy));
  }

  /** @param {string} text is added */
  write(text) {
    this.#beforeChange();
    this.#text.appendData(text);
  }

  /** @param {string} note */
  annotate(note) {
    this.#beforeChange();
    this.#note.textContent = note;
  }
}
