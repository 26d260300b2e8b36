"""Tool-call formats: one module each, tried in this order on a chat template."""
