/** What the demonstration's buttons do: speech is asked for, played and measured in the browser. */

import { Api, ServerError } from "./api.js";
import { dataUri } from "./data-uri.js";
import { Player } from "./player.js";
import { StreamedText } from "./streamed-text.js";
import { Utterance } from "./utterance.js";

/**
 * @typedef {object} Wish
 * @property {string} model @property {number} sampleRateHz @property {string} text
 * @property {string} [voice] @property {string} [language] @property {string} [instructions]
 * @property {{url: string} | null} [reference] a recording that was uploaded or made
 * @property {string} [referenceText] @property {boolean} isStreamed @property {number} wordsPerS
 */

const REDRAW_MS = 100;
const api = new Api();
const player = new Player();
/** @type {Utterance | null} */
let current = null;
let sentText = "";
let complaint = "";

/** @param {Wish} wish */
async function speak(wish) {
  stop();
  complaint = sentText = "";
  player.prepare(wish.sampleRateHz); // within the click: browsers allow sound only then
  try {
    const body = await bodyOf(wish);
    const teller = wish.isStreamed
      ? new StreamedText(wish.wordsPerS, "", (text) => (sentText = text))
      : api;
    const utterance = new Utterance(/** @type {Api} */ (teller), player, {
      onSamples: () => {},
      onChange: draw,
    });
    current = utterance;
    await utterance.run(body);
    complaint = utterance.failure?.message ?? "";
  } catch (error) {
    complaint = error instanceof ServerError ? error.message : String(error);
  }
  draw();
}

function stop() {
  current?.stop();
}

/** @param {Wish} wish */
async function bodyOf(wish) {
  if (!wish.text?.trim()) throw new ServerError("There is no text to speak.");
  /** @type {import("./api.js").SpeechBody} */
  const body = { model: wish.model, input: wish.text, response_format: "pcm" };
  if (wish.voice) body.voice = wish.voice;
  if (wish.language) body.language = wish.language;
  if (wish.instructions?.trim()) body.instructions = wish.instructions;
  if (wish.reference !== undefined) {
    if (!wish.reference) throw new ServerError("Upload or record a voice first.");
    body.ref_audio = await dataUri(await (await fetch(wish.reference.url)).blob());
    if (wish.referenceText?.trim()) body.ref_text = wish.referenceText;
    else body.x_vector_only_mode = true;
  }
  return body;
}

function draw() {
  const panel = document.getElementById("measured");
  if (!panel) return;
  const { state = "idle", firstAudioMs = null, playbackMs = null, underruns = 0 } = current ?? {};
  panel.dataset.state = complaint && state !== "broken" ? "failed" : state;
  write("measured-state", complaint || STATES[state]);
  write("measured-first", inMs(firstAudioMs));
  write("measured-heard", inMs(playbackMs));
  write("measured-factor", current?.realTimeFactor?.toFixed(3) ?? "–");
  write("measured-audio", current?.sampleRateHz ? `${current.positionS.toFixed(1)} s` : "–");
  write("measured-gaps", String(Math.max(underruns, 0)));
  write("measured-text", sentText);
}

/** @type {Record<string, string>} */
const STATES = {
  idle: "Ready",
  connecting: "Asking",
  playing: "Speaking",
  finished: "Done",
  stopped: "Stopped",
  broken: "Broken off",
  failed: "Failed",
};

/** @param {number | null} ms */
function inMs(ms) {
  return ms === null ? "–" : `${Math.round(ms)} ms`;
}

/** @param {string} id @param {string} text */
function write(id, text) {
  const element = document.getElementById(id);
  if (element && element.textContent !== text) element.textContent = text;
}

setInterval(draw, REDRAW_MS);
Object.assign(window, { antiphonDemo: { speak, stop, utterance: () => current } });
