/** Files as they travel in JSON. */

import { ServerError } from "./api.js";

/** @param {Blob} blob @returns {Promise<string>} */
export function dataUri(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new ServerError("The recording cannot be read."));
    reader.readAsDataURL(blob);
  });
}
