"""Text worker: one mlx-lm model, continuous batching, one engine thread."""
