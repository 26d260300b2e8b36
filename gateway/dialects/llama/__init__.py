"""llama-server's own wire formats as the REST reference has them."""
