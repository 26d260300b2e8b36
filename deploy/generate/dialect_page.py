"""Renders docs/dialects.md: which fields each dialect knows and does not serve.

Owns the page's form and the list of dialects; what stands in it is written in the dialects' wire
files, where the parsers read it. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

from gateway.dialects.anthropic.wire import MESSAGES_IGNORED, MESSAGES_REFUSED
from gateway.dialects.llama.wire import NATIVE_IGNORED, NATIVE_REFUSED
from gateway.dialects.openai.responses.wire import (
    COMPACT_REFUSED,
    RESPONSE_IGNORED,
    RESPONSE_REFUSED,
)
from gateway.dialects.openai.wire import (
    CHAT_IGNORED,
    CHAT_REFUSED,
    COMPLETION_IGNORED,
    COMPLETION_REFUSED,
)
from gateway.dialects.unserved import Ignored, Refused


class Dialect(NamedTuple):
    """One section of the page."""

    title: str
    paths: tuple[str, ...]
    ignored: Ignored
    refused: Refused


DIALECTS: Final = (
    Dialect(
        "Chat completions (OpenAI)",
        ("/v1/chat/completions", "/chat/completions"),
        CHAT_IGNORED,
        CHAT_REFUSED,
    ),
    Dialect(
        "Completions (OpenAI)",
        ("/v1/completions",),
        COMPLETION_IGNORED,
        COMPLETION_REFUSED,
    ),
    Dialect(
        "Responses (OpenAI)",
        ("/v1/responses", "/responses", "/v1/responses/input_tokens", "/responses/input_tokens"),
        RESPONSE_IGNORED,
        RESPONSE_REFUSED,
    ),
    Dialect(
        "Compaction of responses (OpenAI)",
        ("/v1/responses/compact", "/responses/compact"),
        {},
        COMPACT_REFUSED,
    ),
    Dialect(
        "Messages (Anthropic)",
        ("/v1/messages", "/messages"),
        MESSAGES_IGNORED,
        MESSAGES_REFUSED,
    ),
    Dialect(
        "Native completions and infills (llama-server)",
        ("/completion", "/completions", "/infill"),
        NATIVE_IGNORED,
        NATIVE_REFUSED,
    ),
)

_HEAD: Final = """\
# Fields that are known and not served

<!-- `make docs` writes this page from the wire files in gateway/dialects. -->

What would change the answer and is not served is refused with a 400 that names the field; what
would not is ignored. A null is the same as an absent field everywhere. Top-level fields that no
dialect knows are ignored too, since clients send what newer servers read; `--log-level debug`
shows them.
"""


def render() -> str:
    """Return docs/dialects.md."""
    return "\n".join([_HEAD, *(line for dialect in DIALECTS for line in _section(dialect))])


def _section(dialect: Dialect) -> Iterator[str]:
    paths = ", ".join(f"`POST {path}`" for path in dialect.paths)
    yield f"## {dialect.title}\n\n{paths}\n"
    if dialect.refused:
        yield "| refused | but for | else |\n|---|---|---|"
        for name, (inert, sentence) in dialect.refused.items():
            values = ", ".join(f"`{json.dumps(value)}`" for value in inert)
            yield f"| `{name}` | {values} | {sentence} |"
        yield ""
    if dialect.ignored:
        yield "| ignored | because |\n|---|---|"
        yield from (f"| `{name}` | {why} |" for name, why in dialect.ignored.items())
        yield ""
