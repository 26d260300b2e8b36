"""Errors of OpenAI's routes: the reference's envelope. Pure."""

from __future__ import annotations

from gateway.dialects.envelope import error

__all__ = ["error"]
