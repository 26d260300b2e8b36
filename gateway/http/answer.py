"""The type of a request handler, and answers that are plain JSON. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def answer_json(report: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(report), content_type="application/json")
