// cohere-ai: rerank, with both of its clients.
import assert from "node:assert";
import { CohereClient, CohereClientV2 } from "cohere-ai";

for (const Client of [CohereClient, CohereClientV2]) {
  const client = new Client({ token: process.env.KEY, environment: process.env.URL });
  const reply = await client.rerank({
    model: "ranker", query: "cats", documents: ["a cat", "a car"], topN: 1,
  });
  assert.equal(reply.results.length, 1);
}
