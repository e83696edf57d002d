/** The two snippets, one shown at a time, and the button that copies it. */

import { curlSnippet, pythonSnippet } from "./snippets.js";
import { copyText, element } from "./view.js";

const COPIED_MS = 1500;

export class CodeTabs {
  #tabs = [element("tab-curl", HTMLButtonElement), element("tab-python", HTMLButtonElement)];
  #panel = element("code", HTMLPreElement);
  #snippets = ["", ""];
  #chosen = 0;

  constructor() {
    const copy = element("copy", HTMLButtonElement);
    this.#tabs.forEach((tab, index) => {
      tab.addEventListener("click", () => this.#choose(index));
      tab.addEventListener("keydown", ({ key }) => {
        if (key === "ArrowRight" || key === "ArrowLeft") this.#choose(1 - index).focus();
      });
    });
    copy.addEventListener("click", async () => {
      await copyText(this.#panel);
      copy.textContent = "Copied";
      setTimeout(() => (copy.textContent = "Copy"), COPIED_MS);
    });
  }

  /** @param {Parameters<typeof curlSnippet>} request */
  show(...request) {
    this.#snippets = [curlSnippet(...request), pythonSnippet(...request)];
    this.#panel.textContent = this.#snippets[this.#chosen];
  }

  /** @param {number} index @returns {HTMLButtonElement} the chosen tab */
  #choose(index) {
    this.#chosen = index;
    this.#tabs.forEach((tab, each) => {
      tab.setAttribute("aria-selected", String(each === index));
      tab.tabIndex = each === index ? 0 : -1;
    });
    this.#panel.setAttribute("aria-labelledby", this.#tabs[index].id);
    this.#panel.textContent = this.#snippets[index];
    return this.#tabs[index];
  }
}
