"""Anthropic's Messages API as the REST reference narrows it and its official clients need it."""
