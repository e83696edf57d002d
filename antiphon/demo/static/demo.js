/** What the demonstration's buttons do: speech is asked for, played and measured in the browser. */

import { Api, ServerError } from "./api.js";
import { dataUri } from "./data-uri.js";
import { Conversation } from "./demo-chat.js";
import { keep } from "./demo-history.js";
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
/** @typedef {{state: string, firstAudioMs: number | null, isActive: boolean, stop: () => void}} Running */

const REDRAW_MS = 100;
const api = new Api();
const player = new Player();
/** @type {Utterance | Running | null} */
let current = null;
let sentText = "";
let complaint = "";

/** Speak, and return the file for Gradio's audio component. @param {Wish} wish */
async function speak(wish) {
  begin();
  player.prepare(wish.sampleRateHz); // within the click: browsers allow sound only then
  try {
    const body = await bodyOf(wish);
    const source = wish.isStreamed
      ? new StreamedText(wish.wordsPerS, "", (text) => (sentText = text))
      : api;
    const utterance = new Utterance(body, source, player, draw);
    current = utterance;
    await utterance.run({});
    complaint = utterance.failure?.message ?? "";
    return utterance.receivedSamples ? keep(utterance) : null;
  } catch (error) {
    complaint = error instanceof ServerError ? error.message : String(error);
    return null;
  } finally {
    draw();
  }
}

/**
 * Answer a message in writing and, with a voice, aloud; return the conversation and an empty message.
 * @param {import("./demo-chat.js").Message} message
 */
async function chat(message) {
  begin();
  const conversation = new Conversation(api, player, message, (text) => (sentText = text));
  current = conversation;
  try {
    const history = await conversation.answer();
    sentText = ""; // it is in the conversation now
    return [history, ""];
  } catch (error) {
    complaint = error instanceof ServerError ? error.message : String(error);
    return [message.history, message.text];
  }
}

function begin() {
  stop();
  current = null;
  complaint = sentText = "";
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
  for (const button of document.querySelectorAll("button.stop, .stop button")) {
    /** @type {HTMLButtonElement} */ (button).disabled = !current?.isActive;
  }
  const panel = document.getElementById("measured");
  if (!panel) return;
  const { state = "idle", firstAudioMs = null } = current ?? {};
  const utterance = current instanceof Utterance ? current : null;
  panel.dataset.state = complaint && state !== "broken" ? "failed" : state;
  write("measured-state", complaint || STATES[state]);
  write("measured-first", inMs(firstAudioMs));
  write("measured-playback", inMs(utterance?.playbackMs ?? null));
  write("measured-factor", utterance?.realTimeFactor?.toFixed(3) ?? "–");
  write("measured-audio", utterance?.sampleRateHz ? `${utterance.positionS.toFixed(1)} s` : "–");
  write("measured-gaps", String(Math.max(utterance?.underruns ?? 0, 0)));
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
Object.assign(window, { antiphonDemo: { speak, chat, stop, utterance: () => current } });
