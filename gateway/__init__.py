"""The HTTP side: knows protocols and policies, knows nothing of models or tokenizers."""
