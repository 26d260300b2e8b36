// langchain: OpenAI's and Anthropic's chat models, calls, schemas, embeddings.
import assert from "node:assert";
import { ChatAnthropic } from "@langchain/anthropic";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { z } from "zod";

const { URL: url, KEY: apiKey } = process.env;
const lamp = tool(async () => "done", {
  name: "lamp", description: "Switch the lamp.", schema: z.object({ on: z.boolean() }),
});
const common = { model: "smol", temperature: 0, maxTokens: 60, apiKey };
const openai = new ChatOpenAI({ ...common, configuration: { baseURL: `${url}/v1` } });
const anthropic = new ChatAnthropic({ ...common, anthropicApiUrl: url });
for (const model of [openai, anthropic]) {
  assert.ok((await model.invoke("Say hi.")).text);
  let text = "";
  for await (const chunk of await model.stream("Say hi.")) text += chunk.text;
  assert.ok(text);
  const called = await model.bindTools([lamp], { tool_choice: "any" }).invoke("Light!");
  assert.equal(called.tool_calls[0].name, "lamp");
}
const typed = openai.withStructuredOutput(z.object({ wet: z.boolean() }));
assert.equal(typeof (await typed.invoke("Is rain wet?")).wet, "boolean");
const embeddings = new OpenAIEmbeddings({
  apiKey, model: "embedder", configuration: { baseURL: `${url}/v1` },
});
assert.equal((await embeddings.embedQuery("a")).length, 384);
