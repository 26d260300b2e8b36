"""The embedding and reranking worker: texts in, vectors or scores out."""
