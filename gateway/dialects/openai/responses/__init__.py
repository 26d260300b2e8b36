"""OpenAI's Responses API: items in, items out, and named events while they are made."""
