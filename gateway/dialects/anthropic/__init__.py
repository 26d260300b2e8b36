"""Anthropic's Messages API: the subset of the REST reference, with what official clients need."""
