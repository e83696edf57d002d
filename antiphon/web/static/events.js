/** Reads server-sent events out of an answer as it arrives. */

/**
 * Yield the data of each event, parsed; a stream that ends in the middle of an event is broken.
 *
 * @param {Response} response
 * @param {(comment: string) => void} [onComment]
 * @returns {AsyncGenerator<any>}
 */
export async function* serverSentEvents(response, onComment = () => {}) {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const events = (held + value).split(/\r?\n\r?\n/);
    held = events.pop() ?? "";
    for (const event of events) {
      if (event.startsWith(":")) onComment(event.slice(1).trim());
      const data = dataOf(event);
      if (data !== "" && data !== "[DONE]") yield JSON.parse(data);
    }
  }
  if (held.trim()) throw new Error("The answer broke off.");
}

/** @param {string} event */
function dataOf(event) {
  return event
    .split(/\r?\n/)
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice("data:".length).trimStart())
    .join("\n");
}
