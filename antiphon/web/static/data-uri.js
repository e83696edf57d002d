/** Files as they travel in JSON. */

import { ServerError } from "./api.js";

/** Those made so far: requests of one file share its text. @type {WeakMap<Blob, Promise<string>>} */
const made = new WeakMap();

/** @param {Blob} blob @returns {Promise<string>} */
export function dataUri(blob) {
  const uri = made.get(blob) ?? read(blob);
  made.set(blob, uri);
  return uri;
}

/** @param {Blob} blob @returns {Promise<string>} */
function read(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new ServerError("The recording cannot be read."));
    reader.readAsDataURL(blob);
  });
}
