/** The same request, for a terminal and for a program. */

/** @typedef {import("./api.js").SpeechBody} SpeechBody */

// What the OpenAI SDK has a parameter for; the rest travels in `extra_body`.
const SDK_FIELDS = ["model", "voice", "input", "instructions", "response_format", "speed"];
const KEY_VARIABLE = "ANTIPHON_API_KEY";

/** @param {SpeechBody} body @param {string} baseUrl @param {boolean} needsKey */
export function curlSnippet(body, baseUrl, needsKey) {
  const lines = [
    `curl ${inShell(`${baseUrl}/audio/speech`)} --fail --no-buffer`,
    `--output ${fileName(body)}`,
    ...(needsKey ? [`--header "Authorization: Bearer $${KEY_VARIABLE}"`] : []),
    "--header 'Content-Type: application/json'",
    `--data ${inShell(JSON.stringify(body, null, 2).replaceAll("\n", "\n  "))}`,
  ];
  return lines.join(" \\\n  ");
}

/** @param {SpeechBody} body @param {string} baseUrl @param {boolean} needsKey */
export function pythonSnippet(body, baseUrl, needsKey) {
  const known = Object.entries(body).filter(([name]) => SDK_FIELDS.includes(name));
  const further = Object.entries(body).filter(([name]) => !SDK_FIELDS.includes(name));
  const extra = further.map(([name, value]) => `${inPython(name)}: ${inPython(value)}`).join(", ");
  return [
    ...(needsKey ? ["import os", ""] : []),
    "from openai import OpenAI",
    "",
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

/** @param {string} text */
function inShell(text) {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** @param {string | number | boolean} value */
function inPython(value) {
  if (typeof value === "boolean") return value ? "True" : "False";
  return JSON.stringify(value); // JSON's numbers and strings are Python's, too
}
