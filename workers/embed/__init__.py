"""The embedding and reranking worker: texts in, vectors or scores out.

One encoder, one lane, and a thread for its tokenizer.
"""
