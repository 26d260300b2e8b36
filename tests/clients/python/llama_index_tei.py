"""llama-index: its client of text-embeddings-inference."""

from __future__ import annotations

import os

from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference

embedder = TextEmbeddingsInference(
    model_name="embedder", base_url=os.environ["URL"], auth_token=os.environ["KEY"]
)
assert len(embedder.get_text_embedding("a")) == 384
assert len(embedder.get_text_embedding_batch(["a", "b"])) == 2
