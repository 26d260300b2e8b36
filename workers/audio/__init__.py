"""The worker that turns speech into text."""
