"""llama-server's own wire formats, as in the REST reference."""
