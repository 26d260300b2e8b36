"""Cross-origin access of web pages (CORS).

Owns every `Access-Control-*` header. Preflights are answered here on any path, before keys are
checked, since browsers send no key with them. Rules and defaults are llama-server's: by default
the origin is echoed; `--allowed-origins` restricts origins. Pure except for two aiohttp hooks.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from gateway.http.answer import Handler
from shared.settings import GatewaySettings

_LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_ORIGIN: Final = "Access-Control-Allow-Origin"


class Cors:
    """The CORS rules of one server."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._allowed = settings.allowed_origins
        self._origins = settings.cors_origins
        self._methods = settings.cors_methods
        self._headers = settings.cors_headers
        self._credentials = settings.cors_credentials

    def allow(self, origin: str) -> dict[str, str]:
        """Return the headers that allow or deny a page of this origin to read a response."""
        if self._allowed:
            found = {_ORIGIN: origin} if origin in self._allowed else {}
        elif self._origins == "localhost":
            found = {_ORIGIN: origin} if _is_local(origin) else {}
        elif self._origins == "*" and self._credentials:
            # Browsers reject `*` together with credentials.
            found = {_ORIGIN: origin}
        else:
            return {_ORIGIN: self._origins}
        # Caches must keep one copy per origin.
        return found | {"Vary": "Origin"}

    def preflight(self, request: web.Request) -> web.Response:
        """Return the response to a preflight request."""
        headers = {
            "Access-Control-Allow-Credentials": str(self._credentials).lower(),
            "Access-Control-Allow-Methods": self._methods,
            "Access-Control-Allow-Headers": self._allowed_headers(request),
        }
        return web.Response(content_type="text/html", headers=headers)

    def _allowed_headers(self, request: web.Request) -> str:
        requested = request.headers.get("Access-Control-Request-Headers", "").lower()
        # For browsers, `*` does not include this header.
        if self._headers == "*" and "authorization" in requested:
            return "*, Authorization"
        return self._headers


def set_up(app: web.Application, cors: Cors) -> None:
    """Add the preflight middleware and the response headers to an application."""

    @web.middleware
    async def answer_preflight(request: web.Request, handler: Handler) -> web.StreamResponse:
        return cors.preflight(request) if request.method == "OPTIONS" else await handler(request)

    async def allow(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(cors.allow(request.headers.get("Origin", "")))

    # Before the error boundary: preflights need neither a key nor a route.
    app.middlewares.insert(0, answer_preflight)
    app.on_response_prepare.append(allow)


def _is_local(origin: str) -> bool:
    try:
        return urlsplit(origin).hostname in _LOCAL_HOSTS
    except ValueError:
        return False
