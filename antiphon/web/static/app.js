/** Wires the page: buttons and keys to utterances, utterances to the screen. */

import { Api, ServerError, baseUrl } from "./api.js";
import { Chatting } from "./chatting.js";
import { Drawing } from "./drawing.js";
import { Filming } from "./filming.js";
import { Form } from "./form.js";
import { KeyPanel } from "./key.js";
import { Player } from "./player.js";
import { Reference } from "./reference.js";
import { StreamedText } from "./streamed-text.js";
import { CodeTabs } from "./tabs.js";
import { TaskTabs, canMake } from "./tasks.js";
import { Utterance } from "./utterance.js";
import { clearAlert, element, show, showAlert, showNumbers } from "./view.js";
import { fileName } from "./snippets.js";
import { Peaks, Waveform } from "./waveform.js";

const STATUS = {
  idle: "Ready",
  connecting: "Waiting for the first audio…",
  playing: "Playing",
  finished: "Finished",
  stopped: "Stopped",
  broken: "Broken: the audio is incomplete",
  failed: "Failed",
};
const USUAL_RATE_HZ = 24000;
const WORDS_PER_S = 4;

const speechForm = element("speech-form", HTMLFormElement);
const stopButton = element("stop", HTMLButtonElement);
const downloadButton = element("download", HTMLButtonElement);

const api = new Api();
const player = new Player();
const form = new Form({ onModel: loadVoices, onChange: showCode });
const reference = new Reference({ onChange: showCode, onError: report });
const wordByWord = element("word-by-word", HTMLInputElement);
const keyPanel = new KeyPanel(api, loadModels);
const code = new CodeTabs();
const tasks = new TaskTabs();
const drawing = new Drawing(api, report);
const filming = new Filming(api, report);
const chatting = new Chatting(api, { onSpeech: () => utterance?.stop(), onError: report });
const waveform = new Waveform(element("wave", HTMLCanvasElement), requestDrawing);

/** @type {Utterance | null} */
let utterance = null;
let peaks = new Peaks(USUAL_RATE_HZ);
/** @type {AbortController | null} */
let download = null;
/** @type {ServerError | null} */
let reported = null;
let isDrawing = false;

async function speak() {
  utterance?.stop();
  if (chatting.spoken) chatting.stop();
  clearAlert();
  form.takeSeed();
  showCode();
  player.prepare(form.model?.sample_rate ?? USUAL_RATE_HZ);
  waveform.reset();
  peaks = new Peaks(USUAL_RATE_HZ);
  const isStreamed = wordByWord.checked;
  const current = new Utterance(isStreamed ? new StreamedText(WORDS_PER_S, api.key) : api, player, {
    onSamples: (samples) => {
      if (current !== utterance) return;
      if (peaks.durationS === 0) peaks = new Peaks(current.sampleRateHz);
      peaks.add(samples);
    },
    onChange: () => {
      if (current === utterance) showState();
    },
  });
  utterance = current;
  showState();
  const body = { ...form.body(), ...(await reference.fields()), response_format: "pcm" };
  await current.run(isStreamed ? body : { ...body, stream_format: "audio" });
}

async function saveFile() {
  if (download) {
    download.abort();
    return;
  }
  if (!speechForm.reportValidity()) return;
  download = new AbortController();
  clearAlert();
  downloadButton.textContent = "Cancel";
  const body = { ...form.body(), stream: false };
  try {
    const response = await api.speech({ ...body, ...(await reference.fields()) }, download.signal);
    offer(await response.blob(), fileName(body));
  } catch (error) {
    if (!download.signal.aborted) report(error);
  } finally {
    download = null;
    downloadButton.textContent = "Download";
  }
}

/** @param {Blob} blob @param {string} name */
function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

async function loadModels() {
  try {
    const models = await api.models();
    form.setModels(models.filter((model) => canMake(model, "speech")));
    drawing.form.setModels(models);
    filming.setModels(models);
    void chatting.setModels(models);
    tasks.offer(models);
    clearAlert();
  } catch (error) {
    show("status", "No models");
    report(error, { label: "Try again", run: loadModels });
    return;
  }
  await loadVoices();
  showState();
}

async function loadVoices() {
  const model = form.model;
  reference.adapt(model);
  if (!model) return;
  try {
    const voices = await api.voices(model.id);
    if (model === form.model) form.setVoices(voices);
  } catch (error) {
    report(error, { label: "Try again", run: loadVoices });
  }
  showCode();
}

/** @param {unknown} error @param {{label: string, run: () => void}} [action] */
function report(error, action) {
  const known = error instanceof ServerError ? error : new ServerError(String(error));
  reported = known;
  showAlert(known, action);
  if (known.status === 401) keyPanel.open();
}

function showState() {
  const state = utterance?.state ?? "idle";
  const isActive = utterance?.isActive ?? false;
  const stopHadFocus = document.activeElement === stopButton;
  document.body.dataset.state = state;
  show("status", STATUS[state]);
  stopButton.disabled = !isActive;
  if (stopHadFocus && !isActive) element("speak", HTMLButtonElement).focus();
  if (utterance?.failure && utterance.failure !== reported) report(utterance.failure);
  if (!isActive) player.rest();
  requestDrawing();
}

function showCode() {
  code.show({ ...form.body(), ...reference.shown }, baseUrl, api.key !== "");
}

function requestDrawing() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    draw();
  });
}

function draw() {
  const positionS = utterance?.positionS ?? 0;
  const isComplete = utterance?.isComplete ?? false;
  const isMoving = waveform.draw(peaks, { positionS, isComplete });
  if (utterance) showNumbers(utterance);
  const label = `Waveform: ${peaks.durationS ? `${peaks.durationS.toFixed(1)} seconds` : "nothing yet"}`;
  if (!utterance?.isActive) element("wave", HTMLCanvasElement).setAttribute("aria-label", label);
  if (utterance?.isActive || isMoving) requestDrawing();
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    element(`${tasks.chosen}-form`, HTMLFormElement).requestSubmit();
  } else if (event.key === "Escape") {
    ({ speech: utterance, chat: chatting, image: drawing, video: filming })[tasks.chosen]?.stop();
  }
}

speechForm.addEventListener("submit", (event) => {
  event.preventDefault();
  void speak();
});
stopButton.addEventListener("click", () => utterance?.stop());
downloadButton.addEventListener("click", saveFile);
element("seed-keep", HTMLButtonElement).addEventListener("click", () => {
  form.keepSeed();
  showCode();
});
document.addEventListener("keydown", onKey);

/** For tests and the curious: what the page knows of the present utterance, and of a spoken answer. */
Object.defineProperty(window, "antiphon", {
  value: { utterance: () => utterance, spoken: () => chatting.spoken },
});

show("base-url", baseUrl);
if (navigator.platform.startsWith("Mac")) show("modifier", "⌘");
showCode();
void loadModels();
