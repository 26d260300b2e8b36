// openai: chats, calls, schemas, streams, responses, embeddings, models.
import assert from "node:assert";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const client = new OpenAI({ baseURL: `${process.env.URL}/v1`, apiKey: process.env.KEY });
const messages = [{ role: "user", content: "What is the capital of France?" }];
const options = { model: "smol", temperature: 0, max_tokens: 16, messages };
const parameters = { type: "object", properties: { city: { type: "string", maxLength: 20 } } };
const tools = [{ type: "function", function: { name: "weather", parameters } }];

const answer = await client.chat.completions.create(options);
let text = "";
for await (const chunk of await client.chat.completions.create({ ...options, stream: true })) {
  text += chunk.choices[0]?.delta?.content ?? "";
}
assert.equal(text, answer.choices[0].message.content);
const called = await client.chat.completions.create({
  ...options, tools, tool_choice: "required", max_tokens: 100,
});
assert.equal(called.choices[0].message.tool_calls[0].function.name, "weather");
const format = zodResponseFormat(z.object({ wet: z.boolean() }), "verdict");
const parsed = await client.chat.completions.parse({ ...options, response_format: format });
assert.equal(typeof parsed.choices[0].message.parsed.wet, "boolean");
const response = await client.responses.create({
  model: "smol", input: "Say hi.", max_output_tokens: 8,
});
assert.ok(response.output_text);
const kinds = [];
for await (const event of client.responses.stream({
  model: "smol", input: "Say hi.", max_output_tokens: 8,
})) {
  kinds.push(event.type);
}
assert.equal(kinds[0], "response.created");
const vectors = await client.embeddings.create({ model: "embedder", input: ["a", "b"] });
assert.equal(vectors.data[1].embedding.length, 384);
const names = [];
for await (const model of client.models.list()) names.push(model.id);
assert.ok(names.includes("smol"));
