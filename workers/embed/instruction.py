"""How each family states in its input what a text is for. Pure.

Sources: the model cards of Qwen3-Embedding, EmbeddingGemma and Qwen3-Reranker; for the others
sentence-transformers, which writes a prompt directly before the text.
"""

from __future__ import annotations

DEFAULT_RERANK_TASK = "Given a web search query, retrieve relevant passages that answer the query"

RERANK_PREFIX = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n"
)
RERANK_SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def write_instruction(family: str, instruction: str, text: str) -> str:
    """Return a text with its instruction."""
    if not instruction:
        return text
    if family == "qwen3":
        return f"Instruct: {instruction}\nQuery:{text}"
    if family == "gemma3_text":
        return f"task: {instruction} | query: {text}"
    return instruction + text


def write_rerank_prompt(instruction: str, query: str, document: str) -> str:
    """Return the question about a document for a generative reranker."""
    task = instruction.strip() or DEFAULT_RERANK_TASK
    return f"<Instruct>: {task}\n<Query>: {query}\n<Document>: {document}"
