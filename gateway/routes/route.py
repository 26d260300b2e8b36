"""What a route is: a method, a path, who answers, and in whose form its errors are. Plain data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from aiohttp import web

from gateway.dialects.base import ErrorDialect

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Route:
    """One method on one path."""

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    dialect: ErrorDialect
