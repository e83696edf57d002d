/** Wires the page: buttons and keys to utterances, utterances to the screen. */

import { Api, ServerError, baseUrl } from "./api.js";
import { Chatting } from "./chatting.js";
import { Drawing } from "./drawing.js";
import { Filming } from "./filming.js";
import { Form } from "./form.js";
import { History } from "./history.js";
import { KeyPanel } from "./key.js";
import { PlayerCard } from "./player-card.js";
import { Player } from "./player.js";
import { Reference } from "./reference.js";
import { StreamedText } from "./streamed-text.js";
import { CodeTabs } from "./tabs.js";
import { TaskTabs, canMake } from "./tasks.js";
import { Utterance } from "./utterance.js";
import { Voices } from "./voices.js";
import { clearAlert, element, show, showAlert } from "./view.js";

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
const chatting = new Chatting(api, { onSpeech: stop, onError: report });
const voices = new Voices(api, { onSpeech: stop, onUse: useVoice, onChange: loadVoices, onError: report });
const card = new PlayerCard(api, report);
const history = new History({
  restored: (kept) => Utterance.restored(kept, api, player),
  onPlay: replay,
  onReuse: reuse,
});

/** @type {Utterance | null} */
let utterance = null;
/** @type {ServerError | null} */
let reported = null;

async function speak() {
  stop();
  voices.stop();
  if (chatting.spoken) chatting.stop();
  clearAlert();
  form.takeSeed();
  showCode();
  player.prepare(form.model?.sample_rate ?? USUAL_RATE_HZ);
  const source = wordByWord.checked ? new StreamedText(WORDS_PER_S, api.key) : api;
  const current = (utterance = new Utterance(form.body(), source, player, () => {
    if (current.isComplete) history.add(current);
    if (current === utterance) showState();
  }));
  card.show(current);
  showState();
  await current.run(await reference.fields());
}

function stop() {
  utterance?.stop();
  card.stop();
}

/** @param {Utterance} kept */
function replay(kept) {
  utterance?.handOver();
  stop();
  card.show(kept);
  void card.toggle().catch(report);
}

async function loadModels() {
  try {
    const models = await api.models();
    show("version", `v${await api.version()}`);
    form.setModels(models.filter((model) => canMake(model, "speech")));
    drawing.setModels(models);
    filming.setModels(models);
    void chatting.setModels(models);
    void voices.setModels(models);
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

/** @param {import("./voices.js").Choice} choice */
async function useVoice(choice) {
  voices.stop();
  tasks.choose("speech");
  form.chooseModel(choice.model);
  await loadVoices();
  form.use(choice);
}

/** @param {import("./api.js").SpeechBody} body */
async function reuse(body) {
  form.chooseModel(String(body.model));
  await loadVoices();
  form.take(body);
}

/** @param {unknown} error @param {{label: string, run: () => void}} [action] */
function report(error, action) {
  const known = error instanceof ServerError ? error : new ServerError(String(error));
  reported = known;
  showAlert(known, tasks.chosen, action);
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
  card.refresh();
}

function showCode() {
  const body = { ...form.body(), ...reference.transcript };
  code.show(body, baseUrl, api.key !== "", reference.file);
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    element(`${tasks.chosen}-form`, HTMLFormElement).requestSubmit();
  } else if (event.key === "Escape") {
    ({ speech: { stop }, voices, chat: chatting, image: drawing, video: filming })[tasks.chosen].stop();
  }
}

speechForm.addEventListener("submit", (event) => {
  event.preventDefault();
  void speak();
});
stopButton.addEventListener("click", stop);
document.addEventListener("keydown", onKey);

/** For tests and the curious: what the page knows of the present utterance, and of a spoken answer. */
Object.defineProperty(window, "antiphon", {
  value: { utterance: () => utterance, spoken: () => chatting.spoken },
});

show("base-url", baseUrl);
if (navigator.platform.startsWith("Mac")) show("modifier", "⌘");
showCode();
void loadModels();
