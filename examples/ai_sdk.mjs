// The AI SDK (npm install ai @ai-sdk/openai): a chat that streams, and its answer as speech.
//   node ai_sdk.mjs [URL [CHAT_MODEL]]     without a chat model a greeting is spoken
import { createOpenAI } from "@ai-sdk/openai";
import { experimental_generateSpeech as generateSpeech, streamText } from "ai";
import { writeFile } from "node:fs/promises";

const [baseURL = "http://127.0.0.1:8000/v1", chatModel] = process.argv.slice(2);
const openai = createOpenAI({ baseURL, apiKey: "none" });

let text = "Hello there.";
if (chatModel) {
  // chat(), not openai(model): that one uses OpenAI's Responses API, which is not served.
  const { textStream } = streamText({ model: openai.chat(chatModel), prompt: "Greet me in a sentence." });
  text = "";
  for await (const piece of textStream) {
    process.stdout.write(piece);
    text += piece;
  }
}

const { audio } = await generateSpeech({ model: openai.speech("tts-1"), text, voice: "alloy" });
await writeFile("hello.mp3", audio.uint8Array);
