"""How OpenAI's routes say that something failed: the reference's envelope as it is. Pure."""

from __future__ import annotations

from gateway.dialects.envelope import FORMS, envelope, error

__all__ = ["FORMS", "envelope", "error"]
