"""The HTTP application: routes, middlewares and the error boundary.

Owns the conversion of exceptions into responses or the end of a stream; handlers raise and never
render errors. Errors have the form of the dialect that owns the path, also when no handler ran.
Runs on the gateway's event loop.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Final

from aiohttp import web

from gateway.context import CONTEXT, Context
from gateway.dialects.base import ErrorDialect
from gateway.dialects.openai import errors
from gateway.http import cors
from gateway.http.answer import Handler
from gateway.http.auth import PRINCIPAL
from gateway.http.body import BODY_TIMEOUT_S
from gateway.http.sse import open_stream
from gateway.http.stall import send_response
from gateway.responses.context import set_up
from gateway.routes.catalog import list_routes
from gateway.routes.operations import metrics
from gateway.routes.route import Route
from shared.errors import ServiceError

log = logging.getLogger(__name__)

_OWNERS: Final = web.AppKey("owners", dict[str, ErrorDialect])
_ID: Final = web.RequestKey("id", str)
# The headers in which the official clients of Anthropic and OpenAI expect a request's id.
_ID_HEADERS: Final = ("request-id", "x-request-id")
# The error code of a failed request.
_OUTCOME: Final = web.RequestKey("outcome", str)
# Headers of such errors that are sent on.
_KEPT: Final = ("Allow", "Accept-Encoding", "Upgrade")
# Errors that aiohttp raises before or instead of a handler.
_CODES: Final[Mapping[int, tuple[str, str]]] = {
    404: ("not_found", "No such path."),
    405: ("method_not_allowed", "This path does not support this method."),
    413: ("payload_too_large", "Request body too large."),
    415: (
        "unsupported_encoding",
        "The body's Content-Encoding is not supported; send none.",
    ),
    426: ("upgrade_required", "This server has no WebSocket here; send a POST."),
}


def make_app(context: Context) -> web.Application:
    """Return the application; the caller starts and stops the registry."""
    routes = list_routes()
    if context.settings.metrics or context.settings.metrics_port:
        routes += metrics.routes()
    app = _make(context, routes, context.settings.api_prefix)
    set_up(app, context.settings)
    return app


def make_metrics_app(context: Context) -> web.Application:
    """Return the application of the metrics port."""
    return _make(context, metrics.routes(), prefix="")


def _make(context: Context, routes: Iterable[Route], prefix: str) -> web.Application:
    # http/body.py bounds bodies while it reads them.
    app = web.Application(middlewares=[count, send_response, error_boundary], client_max_size=0)
    app[CONTEXT] = context
    app[BODY_TIMEOUT_S] = context.body_timeout_s
    app[_OWNERS] = {}
    app.on_response_prepare.append(_add_request_id)
    cors.set_up(app, cors.Cors(context.settings))
    for route in routes:
        # add_get also registers HEAD.
        add = getattr(app.router, f"add_{route.method.lower()}")
        add(prefix + route.path, route.handler)
        app[_OWNERS][prefix + route.path] = route.dialect
    return app


@web.middleware
async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Count a request by its outcome, and measure its duration."""
    began_s = time.monotonic()
    outcome = "cancelled"
    context = request.app[CONTEXT]
    try:
        # Only these make a model work.
        with context.awake.hold() if request.method == "POST" else nullcontext():
            response = await handler(request)
        outcome = request.get(_OUTCOME, "ok")
        return response
    finally:
        resource = request.match_info.route.resource
        path = resource.canonical if resource is not None else "unknown"
        context.metrics.note_answer(path, outcome, time.monotonic() - began_s)


@web.middleware
async def error_boundary(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Check the key, run the handler, and turn every exception into a response."""
    headers: dict[str, str] = {}
    request[_ID] = f"req_{secrets.token_hex(12)}"
    try:
        keys = request.app[CONTEXT].keys
        request[PRINCIPAL] = keys.check(request.rel_url.raw_path, request.headers)
        return await handler(request)
    except ServiceError as failure:
        error = failure
    except web.HTTPException as failure:
        code, message = _CODES.get(failure.status, ("invalid_request", failure.reason))
        error = ServiceError(code, message)
        headers |= {name: failure.headers[name] for name in _KEPT if name in failure.headers}
    except ConnectionError:
        # The client disconnected during the response.
        raise
    except Exception:
        log.exception("%s: %s %s failed", *_label(request))
        error = ServiceError("internal", "Internal server error.")
    request[_OUTCOME] = error.code
    if (stream := open_stream(request)) is not None:
        log.warning("%s: %s %s: stream failed: %s", *_label(request), error.code)
        return await stream.fail(error)
    return _render_error(request, error, headers)


def _render_error(
    request: web.Request, error: ServiceError, headers: Mapping[str, str]
) -> web.Response:
    reply = _find_dialect(request).error(error, request[_ID])
    log.info("%s: %s %s: %d %s", *_label(request), reply.status, error.code)
    response = web.Response(
        status=reply.status, body=reply.body, headers={**reply.headers, **headers}
    )
    if request.content.exception() is not None:
        # The rest of the body can't be read, so nothing can follow it.
        response.force_close()
    return response


def _find_dialect(request: web.Request) -> ErrorDialect:
    """Return the dialect that owns a path; an unknown path belongs with the route above it."""
    owners, path = request.app[_OWNERS], request.path
    if path not in owners:
        above = (owner for owner in owners if path.startswith(f"{owner}/"))
        path = max(above, key=len, default="")
    return owners.get(path, errors)


def _label(request: web.Request) -> tuple[str, str, str]:
    """Return id, method and raw path for the log. The raw path is quoted: it has no line break."""
    return request[_ID], request.method, request.rel_url.raw_path


async def _add_request_id(request: web.Request, response: web.StreamResponse) -> None:
    """Send the id that log lines about this request contain."""
    if (name := request.get(_ID)) is not None:
        response.headers.update(dict.fromkeys(_ID_HEADERS, name))
