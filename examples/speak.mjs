// Node 18 or newer, or a browser, without any package: samples are taken as they are made.
// `scripts/serve`, then `node examples/speak.mjs [URL]`.

import { createWriteStream } from "node:fs";

const url = process.argv[2] ?? "http://127.0.0.1:8000/v1";
const response = await fetch(`${url}/audio/speech`, {
  method: "POST",
  headers: { "Content-Type": "application/json", Authorization: "Bearer none" },
  body: JSON.stringify({
    input: "Good morning. The kettle is on, and the bread is still warm.",
    voice: "alloy", // an alias of the first voice
    response_format: "wav",
  }),
});
if (!response.ok) {
  const { error } = await response.json();
  throw new Error(`${response.status} ${error.code}: ${error.message}`);
}
const file = createWriteStream("hello.wav");
let numBytes = 0;
for await (const piece of response.body) {
  numBytes += piece.length; // play or forward it here: closing the stream stops the work
  file.write(piece);
}
file.end();
console.log(`Wrote hello.wav, ${numBytes} bytes`);
