"""What a route is: a method, a path, who answers, and in whose form its errors are.

Owns the answer that is a plain report too. Pure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from aiohttp import web

from gateway.dialects.base import ErrorDialect

Method = Literal["GET", "POST", "DELETE"]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Route:
    """One method on one path."""

    method: Method
    path: str
    handler: Handler
    dialect: ErrorDialect


def answer_json(report: Any, status: int = 200) -> web.Response:
    """Return a report as an HTTP answer."""
    return web.Response(status=status, body=orjson.dumps(report), content_type="application/json")
