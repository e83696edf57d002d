/** Speaks with the server that sent this page, whose errors have OpenAI's shape. */

/**
 * @typedef {object} Model
 * @property {string} id
 * @property {string[]} [languages] values of `language`; none if it cannot be chosen
 * @property {boolean} [instructions] whether it follows instructions
 * @property {boolean} [cloning] whether it speaks as a recording does
 * @property {boolean} [voice_design] whether instructions describe its voice
 * @property {boolean} [voice_mixing] whether it speaks with mixes of its voices
 * @property {number} [sample_rate] of its audio
 * @property {Voice[]} [voices] those that come with it
 * @property {string[]} [tasks] what it can make, such as text-to-speech
 * @property {Chats} [chat]
 * @property {{sample_rate: number, voices: string[], instructions: string}} [chat_voice] with which it says its answers
 * @property {import("./picture-form.js").Drawing} [image]
 * @property {import("./picture-form.js").Drawing} [video]
 */
/** @typedef {{max_model_len: number, sampling: {temperature: number}}} Chats */
/** @typedef {{id: string, name: string, type?: string, language?: string | null, gender?: string | null, description?: string}} Voice */
/** @typedef {Record<string, string | number | boolean>} SpeechBody */

const DEFAULT_RATE_HZ = 24000;
const KEY_NAME = "antiphon.api_key";

/** What the server refused, or what the network lost. */
export class ServerError extends Error {
  /**
   * @param {string} message
   * @param {{status?: number, code?: string | null, param?: string | null, requestId?: string | null, retryAfterS?: number}} [details]
   *   param: the field of the request at fault
   */
  constructor(message, { status = 0, code = null, param = null, requestId = null, retryAfterS = 0 } = {}) {
    super(message);
    this.param = param;
    this.status = status;
    this.code = code;
    this.requestId = requestId;
    this.retryAfterS = retryAfterS;
  }
}

/** Where the API is, also behind a proxy that adds a prefix. */
export const baseUrl = new URL("v1", document.baseURI).href;

export class Api {
  key = rememberedKey();

  /** @param {string} key @param {boolean} remember whether this browser keeps it */
  useKey(key, remember) {
    this.key = key;
    try {
      if (key && remember) localStorage.setItem(KEY_NAME, key);
      else localStorage.removeItem(KEY_NAME);
    } catch {
      // Storage is blocked: the key lives as long as the page.
    }
  }

  /** @returns {Promise<Model[]>} */
  async models() {
    return (await (await this.#fetch("/models")).json()).data;
  }

  /** @param {string} model @returns {Promise<Voice[]>} */
  async voices(model) {
    const query = new URLSearchParams({ model });
    return (await (await this.#fetch(`/audio/voices?${query}`)).json()).data;
  }

  /** @param {SpeechBody} body @param {AbortSignal} signal */
  speech(body, signal) {
    return this.post("/audio/speech", body, signal);
  }

  /**
   * Speech as PCM, while it is generated.
   * @param {SpeechBody} body @param {AbortSignal} signal
   * @param {(words: string[]) => void} onUnspoken gets words that the voice leaves out
   */
  async stream(body, signal, onUnspoken) {
    const response = await this.speech({ ...body, response_format: "pcm", stream_format: "audio" }, signal);
    const words = response.headers.get("X-Unspoken-Text");
    if (words) onUnspoken([...words.split(",").map(decodeURIComponent), ...moreOf(response)]);
    return response;
  }

  /** The version of the server. @returns {Promise<string>} */
  async version() {
    return (await (await this.#fetch("")).json()).version;
  }

  /** @param {string} path @param {object} body @param {AbortSignal} signal */
  post(path, body, signal) {
    return this.#fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
  }

  /** @param {string} path @param {FormData} data @param {AbortSignal} signal */
  postForm(path, data, signal) {
    return this.#fetch(path, { method: "POST", body: data, signal });
  }

  /** @param {string} path @param {AbortSignal} signal */
  get(path, signal) {
    return this.#fetch(path, { signal });
  }

  /** @param {string} path */
  remove(path) {
    return this.#fetch(path, { method: "DELETE" });
  }

  /** @param {string} path @param {RequestInit} [init] */
  async #fetch(path, init = {}) {
    const headers = new Headers(init.headers);
    if (this.key) headers.set("Authorization", `Bearer ${this.key}`);
    let response;
    try {
      response = await fetch(baseUrl + path, { ...init, headers, cache: "no-store" });
    } catch (error) {
      if (init.signal?.aborted) throw error;
      throw new ServerError("The server cannot be reached. Is it still running?");
    }
    if (!response.ok) throw await refusal(response);
    return response;
  }
}

export function rememberedKey() {
  try {
    return localStorage.getItem(KEY_NAME) ?? "";
  } catch {
    return "";
  }
}

/** The rate of a PCM answer. @param {Response} response */
export function sampleRateOf(response) {
  const inType = /rate=(\d+)/.exec(response.headers.get("Content-Type") ?? "")?.[1];
  return Number(response.headers.get("X-Sample-Rate") ?? inType) || DEFAULT_RATE_HZ;
}

/** @param {Response} response */
function moreOf(response) {
  const num = response.headers.get("X-Unspoken-Text-Omitted");
  return num ? [`${num} more`] : [];
}

/** @param {Response} response */
async function refusal(response) {
  const body = await response.json().catch(() => ({}));
  const { message, code = null, param = null } = body?.error ?? {};
  return new ServerError(message ?? `The server answered ${response.status} without a reason.`, {
    status: response.status,
    code,
    param,
    requestId: response.headers.get("X-Request-Id"),
    retryAfterS: Number(response.headers.get("Retry-After")) || 0,
  });
}
