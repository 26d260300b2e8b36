"""A route: a method, a path, its handler, and the dialect that renders its errors. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gateway.dialects.base import ErrorDialect
from gateway.http.answer import Handler

Method = Literal["GET", "POST", "DELETE"]


@dataclass(frozen=True)
class Route:
    """One method on one path.

    Attributes:
        dialect: form of its errors.
        kind: of the worker that it needs; empty for none, or for that of the entry in the table
            of kinds that names the route's module.
    """

    method: Method
    path: str
    handler: Handler
    dialect: ErrorDialect
    kind: str = ""
