/** The panel for the API key: shown when the server asks, or to forget a key. */

import { rememberedKey } from "./api.js";
import { element } from "./view.js";

const form = element("key-form", HTMLFormElement);
const field = element("key", HTMLInputElement);
const remember = element("key-remember", HTMLInputElement);
const opener = element("key-open", HTMLButtonElement);

export class KeyPanel {
  #api;

  /** @param {import("./api.js").Api} api @param {() => void} onKey */
  constructor(api, onKey) {
    this.#api = api;
    opener.hidden = !api.key;
    opener.addEventListener("click", () => (form.hidden ? this.open() : this.#close()));
    element("key-close", HTMLButtonElement).addEventListener("click", () => this.#close());
    form.addEventListener("keydown", ({ key }) => key === "Escape" && this.#close());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      api.useKey(field.value.trim(), remember.checked);
      this.#close();
      onKey();
    });
  }

  open() {
    field.value = this.#api.key;
    remember.checked = rememberedKey() !== "";
    opener.hidden = false;
    form.hidden = false;
    opener.setAttribute("aria-expanded", "true");
    field.focus();
  }

  #close() {
    form.hidden = true;
    opener.setAttribute("aria-expanded", "false");
  }
}
