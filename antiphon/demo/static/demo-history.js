/** The speech of this visit: files for Gradio's audio component, and a list to play and save them again. */

/** Half an hour at 24 kHz for each of a few; the oldest are dropped. */
const MOST_ENTRIES = 20;

/**
 * Add an utterance to the list, and return its file as Gradio describes files.
 * @param {import("./utterance.js").Utterance} utterance
 */
export function keep(utterance) {
  const url = URL.createObjectURL(utterance.recording.wav);
  const name = `speech-${new Date().toTimeString().slice(0, 8).replaceAll(":", "")}.wav`;
  add(String(utterance.body.input), String(utterance.body.voice ?? utterance.body.model), url, name);
  const meta = { _type: "gradio.FileData" };
  return { path: url, url, orig_name: name, mime_type: "audio/wav", is_stream: false, meta };
}

/** @param {string} text @param {string} voice @param {string} url @param {string} name */
function add(text, voice, url, name) {
  const list = document.getElementById("spoken-list");
  if (!list) return;
  const entry = document.createElement("li");
  const title = document.createElement("p");
  title.textContent = `${voice}: ${text}`;
  const audio = document.createElement("audio");
  Object.assign(audio, { controls: true, src: url, preload: "metadata" });
  const link = document.createElement("a");
  Object.assign(link, { href: url, download: name, textContent: "Download" });
  entry.append(title, audio, link);
  list.prepend(entry);
  while (list.children.length > MOST_ENTRIES) {
    URL.revokeObjectURL(list.lastElementChild?.querySelector("a")?.href ?? "");
    list.lastElementChild?.remove();
  }
}
