"""State that outlives a request: stored responses and conversations, in memory or in Redis."""
