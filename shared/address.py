"""What an HTTP address is. Standard library only: preflight runs before anything is installed."""

from __future__ import annotations


def is_socket(host: str) -> bool:
    """Return whether an address to listen on is the path of a Unix socket."""
    return host.endswith(".sock")
