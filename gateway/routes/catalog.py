"""Every route of the server, collected from the route modules.

The table of kinds names the modules that need a worker; those that need none are imported here.
"""

from __future__ import annotations

import importlib
from dataclasses import replace

from gateway.routes import images
from gateway.routes.operations import health, models
from gateway.routes.route import Route
from shared.kind import KINDS

_WITHOUT_WORKER = (models, health, images)


def list_routes() -> list[Route]:
    """Return the routes of all modules but the metrics', each with the kind of worker it needs."""
    owners: dict[str, str] = {}
    for kind in KINDS.values():
        for module in kind.route_modules:
            owners.setdefault(module, kind.name)
    needing = [
        # Of a module that serves several kinds, each route states its own.
        replace(route, kind=route.kind or kind)
        for module, kind in owners.items()
        for route in importlib.import_module(module).routes()
    ]
    return needing + [route for module in _WITHOUT_WORKER for route in module.routes()]


def list_paths() -> dict[str, list[str]]:
    """Return the paths that each kind of worker answers, every path once."""
    paths: dict[str, dict[str, None]] = {name: {} for name in KINDS}
    for route in list_routes():
        if route.kind:
            paths[route.kind][route.path] = None
    return {kind: list(found) for kind, found in paths.items()}
