/** Utterances in this browser's own database: they outlive a reload, and never leave the browser. */

import { baseUrl } from "./api.js";

/** @typedef {import("./utterance.js").KeptUtterance} KeptUtterance */

const MOST_ENTRIES = 20;
const MOST_BYTES = 50e6;
const TABLE = "utterances";

/** All methods do nothing where the browser has no database, as in some private windows. */
export class HistoryStore {
  /** @type {Promise<IDBDatabase | null>} */
  #opening = opened().catch(() => null);

  /** Whether anything is kept. */
  async isOpen() {
    return (await this.#opening) !== null;
  }

  /** The newest first. @returns {Promise<KeptUtterance[]>} */
  async all() {
    return (await this.#try("readonly", async (table) => (await result(table.getAll())).reverse())) ?? [];
  }

  /** Keep one, in place of what was kept of it before, and drop the oldest beyond the limits. @param {KeptUtterance} kept */
  async add(kept) {
    if (numBytes(kept) > MOST_BYTES) return;
    await this.#try("readwrite", async (table) => {
      /** @type {KeptUtterance[]} */
      const all = await result(table.getAll());
      const others = all.filter(({ startedMs }) => startedMs !== kept.startedMs);
      let total = others.reduce((sum, other) => sum + numBytes(other), numBytes(kept));
      while (others.length >= MOST_ENTRIES || total > MOST_BYTES) {
        const oldest = /** @type {KeptUtterance} */ (others.shift());
        table.delete(oldest.startedMs);
        total -= numBytes(oldest);
      }
      table.put(kept);
    });
  }

  async clear() {
    await this.#try("readwrite", async (table) => void table.clear());
  }

  /**
   * @template T
   * @param {IDBTransactionMode} mode
   * @param {(table: IDBObjectStore) => Promise<T>} work
   * @returns {Promise<T | undefined>} nothing, if the disk is full or forbidden
   */
  async #try(mode, work) {
    const database = await this.#opening;
    if (!database) return undefined;
    try {
      const transaction = database.transaction(TABLE, mode);
      const ended = new Promise((resolve, reject) => {
        transaction.oncomplete = resolve;
        transaction.onabort = () => reject(transaction.error);
      });
      const [found] = await Promise.all([work(transaction.objectStore(TABLE)), ended]);
      return found;
    } catch {
      return undefined;
    }
  }
}

/** @param {KeptUtterance} kept */
function numBytes({ pcm, body }) {
  return pcm.size + JSON.stringify(body).length;
}

async function opened() {
  // Servers behind one address, each under a prefix of its own, have a history each.
  const request = indexedDB.open(`antiphon ${baseUrl}`);
  request.onupgradeneeded = () => request.result.createObjectStore(TABLE, { keyPath: "startedMs" });
  return await result(request);
}

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
function result(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
