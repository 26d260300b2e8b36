"""The embedding and reranking worker: texts in, vectors or scores out.

One encoder on a model thread, and a thread for its tokenizer. Imports no other worker.
"""
