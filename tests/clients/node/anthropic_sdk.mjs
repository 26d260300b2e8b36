// @anthropic-ai/sdk: messages, streams, calls, token counts, models.
import assert from "node:assert";
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: process.env.URL, apiKey: process.env.KEY });
const messages = [{ role: "user", content: "What is the capital of France?" }];
const options = { model: "smol", max_tokens: 16, temperature: 0, messages };
const schema = { type: "object", properties: { city: { type: "string", maxLength: 20 } } };

const message = await client.messages.create(options);
const streamed = await client.messages.stream(options).finalMessage();
assert.equal(streamed.content[0].text, message.content[0].text);
const called = await client.messages.create({
  ...options,
  max_tokens: 100,
  tools: [{ name: "weather", input_schema: schema }],
  tool_choice: { type: "any" },
});
assert.equal(called.content[0].name, "weather");
const counted = await client.messages.countTokens({ model: "smol", messages });
assert.ok(counted.input_tokens > 5);
const models = {};
for await (const model of client.models.list()) models[model.id] = model;
assert.ok(models.smol.capabilities.structured_outputs.supported);
assert.ok(models.smol.max_input_tokens > 1000);
