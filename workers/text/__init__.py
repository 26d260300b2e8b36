"""Text worker: one mlx-lm model, continuous batching, one engine thread.

Three threads of work: the event loop speaks gRPC, the render thread makes prompts of requests, the
engine thread owns the model. docs/architecture.md follows a request through them.
"""
