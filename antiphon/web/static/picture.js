/** One image of an answer: shown as it forms, then as large as it is, to be saved and edited. */

import { button, offer } from "./view.js";

export class Picture {
  root = document.createElement("figure");
  isWhole = false;
  /** Part of its steps that is done. */
  progress = 0;

  #image = new Image();
  #onEdit;

  /** @param {string} alt @param {((file: File) => void) | null} onEdit null: the model edits no images */
  constructor(alt, onEdit) {
    this.#image.alt = alt;
    this.#onEdit = onEdit;
  }

  get isEmpty() {
    return this.root.childElementCount === 0;
  }

  /** @param {{type: string, b64_json: string, output_format?: string}} event a preview, or the image */
  show(event) {
    const bytes = Uint8Array.from(atob(event.b64_json), (letter) => letter.charCodeAt(0));
    const type = event.output_format ?? "png";
    const file = new File([bytes], `image.${type}`, { type: `image/${type}` });
    this.forget();
    this.#image.src = URL.createObjectURL(file);
    this.root.prepend(this.#image);
    this.isWhole = event.type.endsWith(".completed");
    if (!this.isWhole) return;
    const edit = this.#onEdit;
    const caption = document.createElement("figcaption");
    caption.append(
      button("Download", () => offer(file, file.name)),
      ...(edit ? [button("Edit", () => edit(file))] : []),
    );
    this.root.append(caption);
  }

  /** Give back the memory of what is shown. */
  forget() {
    URL.revokeObjectURL(this.#image.src);
  }
}
