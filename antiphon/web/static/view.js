/** Small things on the screen: elements, numbers, the alert, copying. */

/**
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} type
 * @returns {T}
 */
export function element(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`no ${type.name} #${id}`);
  return found;
}

/** @param {string} id @param {string} text */
export function show(id, text) {
  const target = element(id, HTMLElement);
  if (target.textContent !== text) target.textContent = text;
}

/** @param {number} seconds */
export function clock(seconds) {
  const tenths = Math.floor(seconds * 10);
  const minutes = Math.floor(tenths / 600);
  return `${minutes}:${((tenths % 600) / 10).toFixed(1).padStart(4, "0")}`;
}

/** @param {import("./utterance.js").Utterance} utterance */
export function showNumbers(utterance) {
  const factor = utterance.realTimeFactor;
  const durationS = utterance.receivedSamples / (utterance.sampleRateHz || 1);
  show("first-audio", milliseconds(utterance.firstAudioMs));
  show("playback", milliseconds(utterance.playbackMs));
  show("audio", durationS ? `${durationS.toFixed(2)} s` : "–");
  show("pace", factor ? `${(1 / factor).toFixed(factor > 0.1 ? 1 : 0)}×` : "–");
  show("underruns", durationS ? String(utterance.underruns) : "–");
  element("underruns", HTMLElement).classList.toggle("bad", utterance.underruns > 0);
  element("left-out", HTMLElement).hidden = !utterance.unspoken;
  show("left-out", utterance.unspoken && `This voice leaves out: ${utterance.unspoken}`);
}

/** @param {number | null} value */
export function milliseconds(value) {
  return value === null ? "–" : `${Math.round(value)} ms`;
}

/**
 * Show an error; the field of the task's form at fault is marked and focused.
 * @param {import("./api.js").ServerError} error
 * @param {string} task
 * @param {{label: string, run: () => void}} [action] what the user can do about it
 */
export function showAlert(error, task, action) {
  const details = [
    error.status ? `HTTP ${error.status}` : "",
    error.code ?? "",
    error.requestId ?? "",
    error.retryAfterS ? `try again in ${error.retryAfterS} s` : "",
  ].filter(Boolean);
  const parts = [paragraph(messageAt(fieldAtFault(error, task), error), "message")];
  if (details.length > 0) parts.push(paragraph(details.join(" · "), "details"));
  const buttons = document.createElement("div");
  buttons.className = "buttons";
  if (action) buttons.append(button(action.label, action.run));
  buttons.append(button("Dismiss", clearAlert));
  element("alert", HTMLElement).replaceChildren(...parts, buttons);
}

export function clearAlert() {
  element("alert", HTMLElement).replaceChildren();
  for (const field of document.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
}

/** @param {import("./api.js").ServerError} error @param {string} task */
function fieldAtFault({ param }, task) {
  const name = CSS.escape(param?.split(/[.[]/)[0] ?? "");
  const field = document.querySelector(`[data-task="${task}"] [data-param~="${name}"]`);
  return field instanceof HTMLElement && field.closest("[hidden]") === null ? field : null;
}

/** Mark a field and return the message, in which it has its label. @param {HTMLElement | null} field @param {import("./api.js").ServerError} error */
function messageAt(field, { param, message }) {
  if (!field) return message;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-errormessage", "alert");
  field.closest("details")?.setAttribute("open", "");
  field.addEventListener("input", clearAlert, { once: true });
  field.focus();
  const label = document.querySelector(`label[for="${field.id}"]`);
  const name = (label?.querySelector("span") ?? label)?.textContent ?? "";
  return message.includes(`'${param}'`) ? message.replaceAll(`'${param}'`, `“${name}”`) : `${name}: ${message}`;
}

/** Save a file. @param {Blob} blob @param {string} name */
export function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** @param {string} text @param {string} className */
export function paragraph(text, className) {
  const made = document.createElement("p");
  made.className = className;
  made.textContent = text;
  return made;
}

/** @param {string} label @param {() => void} run */
export function button(label, run) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "link";
  made.textContent = label;
  made.addEventListener("click", run);
  return made;
}

/** Copy what an element shows; a page without TLS has no clipboard, so then it is selected too. @param {HTMLElement} source */
export async function copyText(source) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(source.textContent ?? "");
    return;
  }
  getSelection()?.selectAllChildren(source);
  document.execCommand("copy");
}
