/** The same request, for a terminal and for a program. */

/** @typedef {import("./api.js").SpeechBody} SpeechBody */
/** @typedef {{fileName: string, type: string}} RecordedFile a recording, which both read from its file */

// What the OpenAI SDK has a parameter for; the rest travels in `extra_body`.
const SDK_FIELDS = ["model", "voice", "input", "instructions", "response_format", "speed"];
const KEY_VARIABLE = "ANTIPHON_API_KEY";

/** @param {SpeechBody} body @param {string} baseUrl @param {boolean} needsKey @param {RecordedFile | null} recording */
export function curlSnippet(body, baseUrl, needsKey, recording) {
  const lines = [
    `curl ${inShell(`${baseUrl}/audio/speech`)} --fail --no-buffer`,
    `--output ${fileName(body)}`,
    ...(needsKey ? [`--header "Authorization: Bearer $${KEY_VARIABLE}"`] : []),
    "--header 'Content-Type: application/json'",
    `--data ${recording ? withRecording(body, recording) : inShell(inLines(body).replaceAll("\n", "\n  "))}`,
  ];
  return lines.join(" \\\n  ");
}

/** @param {SpeechBody} body @param {string} baseUrl @param {boolean} needsKey @param {RecordedFile | null} recording */
export function pythonSnippet(body, baseUrl, needsKey, recording) {
  const known = Object.entries(body).filter(([name]) => SDK_FIELDS.includes(name));
  const further = Object.entries(body).filter(([name]) => !SDK_FIELDS.includes(name));
  const extras = further.map(([name, value]) => `${inPython(name)}: ${inPython(value)}`);
  if (recording) extras.push(`"ref_audio": ${inPython(uriStart(recording))} + recording.decode()`);
  const extra = extras.join(", ");
  return [
    ...(recording ? ["import base64"] : []),
    ...(needsKey ? ["import os"] : []),
    ...(recording ? ["from pathlib import Path"] : []),
    ...(needsKey || recording ? [""] : []),
    "from openai import OpenAI",
    "",
    ...(recording ? [`recording = base64.b64encode(Path(${inPython(recording.fileName)}).read_bytes())`] : []),
    `client = OpenAI(base_url=${inPython(baseUrl)}, api_key=${needsKey ? `os.environ[${inPython(KEY_VARIABLE)}]` : '"none"'})`,
    "",
    "with client.audio.speech.with_streaming_response.create(",
    ...known.map(([name, value]) => `    ${name}=${inPython(value)},`),
    ...(extra ? [`    extra_body={${extra}},`] : []),
    ") as response:",
    `    response.stream_to_file(${inPython(fileName(body))})`,
  ].join("\n");
}

/** @param {SpeechBody} body */
export function fileName(body) {
  return `speech.${body.response_format}`;
}

/** The body from a here-document, as the file would be too long for an argument. @param {SpeechBody} body @param {RecordedFile} recording */
function withRecording(body, recording) {
  const mark = '"ref_audio": ""';
  const content = `${uriStart(recording)}$(base64 < ${inShell(recording.fileName)} | tr -d '\\n')`;
  const json = inLines({ ...body, ref_audio: "" }).replaceAll(/[\\$`]/g, "\\$&");
  return `@- <<END\n${json.replace(mark, () => `"ref_audio": "${content}"`)}\nEND`;
}

/** @param {RecordedFile} recording */
function uriStart({ type }) {
  return `data:${type || "application/octet-stream"};base64,`;
}

/** @param {SpeechBody} body */
function inLines(body) {
  return JSON.stringify(body, null, 2);
}

/** @param {string} text */
function inShell(text) {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** @param {string | number | boolean} value */
function inPython(value) {
  if (typeof value === "boolean") return value ? "True" : "False";
  return JSON.stringify(value); // JSON's numbers and strings are Python's, too
}
