"""HTTP handlers: straight lines from a request to an answer."""
