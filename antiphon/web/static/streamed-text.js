/** Speech whose text goes in word by word, over a WebSocket; its audio is an answer as any other. */

import { ServerError } from "./api.js";

export class StreamedText {
  #wordsPerS;
  #protocols;
  #onText;

  /**
   * @param {number} wordsPerS @param {string} [key] of the API
   * @param {(text: string) => void} [onText] told what has been sent
   */
  constructor(wordsPerS, key = "", onText = () => {}) {
    this.#wordsPerS = wordsPerS;
    // A browser can send no other header, and the server picks one that it knows.
    this.#protocols = key ? ["realtime", `openai-insecure-api-key.${key}`] : [];
    this.#onText = onText;
  }

  /**
   * The same as `Api.stream`; the answer begins with the first audio.
   * @param {import("./api.js").SpeechBody} body @param {AbortSignal} signal
   * @param {(words: string[]) => void} onUnspoken @returns {Promise<Response>}
   */
  stream(body, signal, onUnspoken) {
    signal.throwIfAborted();
    const { input, ...settings } = body;
    const address = new URL("v1/audio/speech/stream", document.baseURI);
    address.protocol = address.protocol.replace("http", "ws");
    const socket = this.#open(address);
    socket.binaryType = "arraybuffer";
    signal.addEventListener("abort", () => socket.close());
    socket.onopen = () => {
      socket.send(JSON.stringify({ type: "session.config", ...settings, response_format: "pcm", stream_audio: true }));
      void this.#feed(socket, String(input));
    };
    return new Promise((resolve, reject) => receive(socket, resolve, reject, onUnspoken));
  }

  /** @param {URL} address */
  #open(address) {
    try {
      return new WebSocket(address, this.#protocols);
    } catch {
      throw new ServerError("A browser cannot send this key over a WebSocket: it has other characters than letters, digits and signs.");
    }
  }

  /** @param {WebSocket} socket @param {string} text */
  async #feed(socket, text) {
    let sent = "";
    for (const word of text.match(/\s*\S+\s*$|\s*\S+/gu) ?? []) {
      if (socket.readyState !== WebSocket.OPEN) return;
      socket.send(JSON.stringify({ type: "input.text", text: word }));
      this.#onText((sent += word));
      await new Promise((resolve) => setTimeout(resolve, 1000 / this.#wordsPerS));
    }
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ type: "input.done" }));
  }
}

/**
 * @param {WebSocket} socket
 * @param {(response: Response) => void} resolve @param {(error: ServerError) => void} reject
 * @param {(words: string[]) => void} onUnspoken
 */
function receive(socket, resolve, reject, onUnspoken) {
  /** @type {ReadableStreamDefaultController<Uint8Array> | undefined} */
  let audio;
  let isOver = false;
  /** @param {string} message @param {{code?: string, param?: string}} [details] */
  const fail = (message, details) => {
    if (isOver) return;
    isOver = true;
    const error = new ServerError(message, details);
    if (audio) audio.error(error);
    else reject(error);
    socket.close();
  };
  socket.onclose = () => fail("The server closed the connection.");
  socket.onmessage = ({ data }) => {
    if (data instanceof ArrayBuffer) {
      audio?.enqueue(new Uint8Array(data));
      return;
    }
    const event = JSON.parse(data);
    if (event.type === "error") fail(event.message, event.error);
    else if (event.type === "audio.done" && event.error) fail("The speech broke off.");
    else if (event.type === "audio.done" && event.unspoken) onUnspoken(event.unspoken);
    else if (event.type === "audio.start" && !audio) {
      const stream = new ReadableStream({ start: (controller) => void (audio = controller) });
      const headers = { "X-Sample-Rate": event.sample_rate, "X-Channels": event.channels ?? 1 };
      resolve(new Response(stream, { headers }));
    } else if (event.type === "session.done") {
      if (!audio) return fail("The server sent no audio.");
      isOver = true;
      audio.close();
      socket.close();
    }
  };
}
