/** The tabs of what the loaded models can make; only one task is on the screen at a time. */

import { clearAlert, element } from "./view.js";

/** @typedef {"speech" | "voices" | "chat" | "image" | "video"} TaskName */

/** @type {TaskName[]} */
const TASKS = ["speech", "voices", "chat", "image", "video"];

/** What the API calls them. @type {Record<Exclude<TaskName, "voices">, string>} */
const API_NAMES = {
  speech: "text-to-speech",
  chat: "text-generation",
  image: "text-to-image",
  video: "text-to-video",
};

/** @param {import("./api.js").Model} model @param {TaskName} task @returns {boolean} */
export function canMake(model, task) {
  if (task === "voices") return canMake(model, "speech") && hasVoices(model);
  return model.tasks?.includes(API_NAMES[task]) ?? task === "speech";
}

/** Whether there is a choice of voices. @param {import("./api.js").Model} model */
export function hasVoices({ voices = [], cloning, voice_design, voice_mixing }) {
  return voices.length > 1 || Boolean(cloning || voice_design || voice_mixing);
}

export class TaskTabs {
  /** @type {TaskName} */
  #chosen = "speech";
  /** @type {TaskName[]} */
  #offered = ["speech"];

  constructor() {
    for (const task of TASKS) {
      const tab = this.#tab(task);
      tab.addEventListener("click", () => this.choose(task));
      tab.addEventListener("keydown", ({ key }) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
        if (!step) return;
        const { length } = this.#offered;
        const next = this.#offered[(this.#offered.indexOf(task) + step + length) % length];
        this.choose(next);
        this.#tab(next).focus();
      });
    }
  }

  get chosen() {
    return this.#chosen;
  }

  /** @param {import("./api.js").Model[]} models */
  offer(models) {
    this.#offered = TASKS.filter((task) => models.some((model) => canMake(model, task)));
    for (const task of TASKS) this.#tab(task).hidden = !this.#offered.includes(task);
    element("tasks", HTMLElement).hidden = this.#offered.length < 2;
    this.choose(this.#offered.includes(this.#chosen) ? this.#chosen : this.#offered[0] ?? "speech");
  }

  /** @param {TaskName} task */
  choose(task) {
    if (task !== this.#chosen) clearAlert(); // it was about the other task
    this.#chosen = task;
    for (const each of TASKS) {
      this.#tab(each).setAttribute("aria-selected", String(each === task));
      this.#tab(each).tabIndex = each === task ? 0 : -1;
    }
    for (const part of document.querySelectorAll("[data-task]")) {
      if (part instanceof HTMLElement) part.hidden = part.dataset.task !== task;
    }
  }

  /** @param {TaskName} task */
  #tab(task) {
    return element(`task-${task}`, HTMLButtonElement);
  }
}
