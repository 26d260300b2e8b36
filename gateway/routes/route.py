"""A route: a method, a path, its handler, and the dialect that renders its errors. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gateway.dialects.base import ErrorDialect
from gateway.http.answer import Handler

Method = Literal["GET", "POST", "DELETE"]


@dataclass(frozen=True)
class Route:
    """One method on one path."""

    method: Method
    path: str
    handler: Handler
    dialect: ErrorDialect
