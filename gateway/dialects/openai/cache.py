"""Prompt cache fields of OpenAI bodies. Pure."""

from __future__ import annotations

from gateway.dialects.base import Stamp
from gateway.dialects.openai import wire
from shared.pb import text_pb2 as pb


def parse_cache(fields: wire.TextFields, stamp: Stamp) -> pb.CachePolicy:
    """Return whether to use the prompt cache, and which requests share its entries."""
    enabled = fields.cache_prompt
    if enabled is None and (raw := (fields.extra_body or {}).get("cache_prompt")) is not None:
        # As in the reference, only a boolean counts here.
        enabled = {b"true": True, b"false": False}.get(bytes(raw))
    session = fields.prompt_cache_key or fields.user or ""
    return stamp.cache_policy(enabled=enabled, session=session)
