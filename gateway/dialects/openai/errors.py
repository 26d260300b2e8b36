"""How OpenAI's routes say that something failed: the reference's envelope as it is. Pure."""

from __future__ import annotations

from gateway.dialects.envelope import error

__all__ = ["error"]
