"""OpenAI's Responses API: items in, items and named events out."""
