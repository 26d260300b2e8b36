"""OpenAI's wire formats as the REST reference narrows and widens them."""
