// ai: OpenAI's provider (Responses and chats), the compatible one, and Anthropic's.
import assert from "node:assert";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embed, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const url = `${process.env.URL}/v1`;
const apiKey = process.env.KEY;
const openai = createOpenAI({ baseURL: url, apiKey });
const compatible = createOpenAICompatible({
  name: "local", baseURL: url, apiKey, supportsStructuredOutputs: true,
});
const anthropic = createAnthropic({ baseURL: url, apiKey });
const schema = z.object({ wet: z.boolean() });
const lamp = tool({
  description: "Switch the lamp.",
  inputSchema: z.object({ on: z.boolean() }),
  execute: async ({ on }) => `on: ${on}`,
});

const models = [openai("smol"), openai.chat("smol"), compatible("smol"), anthropic("smol")];
for (const model of models) {
  const common = { model, temperature: 0, maxOutputTokens: 100, maxRetries: 0 };
  assert.ok((await generateText({ ...common, prompt: "Say hi." })).text);
  let text = "";
  for await (const part of streamText({ ...common, prompt: "Say hi." }).textStream) text += part;
  assert.ok(text);
  const called = await generateText({
    ...common, prompt: "Light!", tools: { lamp }, toolChoice: "required",
  });
  assert.equal(called.toolCalls[0].toolName, "lamp");
  const typed = await generateText({
    ...common, prompt: "Is rain wet?", output: Output.object({ schema }),
  });
  assert.equal(typeof typed.output.wet, "boolean");
  // Tools and a schema in one request.
  const both = await generateText({
    ...common,
    prompt: "Is rain wet?",
    tools: { lamp },
    output: Output.object({ schema }),
    stopWhen: stepCountIs(5),
  });
  assert.ok(both.toolCalls.length || typeof both.output.wet === "boolean");
}
const { embedding } = await embed({ model: openai.embedding("embedder"), value: "a" });
assert.equal(embedding.length, 384);
