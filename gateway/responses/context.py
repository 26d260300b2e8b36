"""What the handlers of the Responses API share: the archive and the responses that are streaming.

Made once per application, which closes the archive when it is cleaned up. Runs on the gateway's
event loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from gateway.responses.turn import ResponseTurn
from gateway.state.archive import ResponseArchive, open_archive
from shared.settings import GatewaySettings


@dataclass(frozen=True)
class ResponseContext:
    """Stored responses, and those being streamed.

    Attributes:
        turns: by response id.
    """

    archive: ResponseArchive
    turns: dict[str, ResponseTurn] = field(default_factory=dict)


RESPONSE_CONTEXT: Final = web.AppKey("response_context", ResponseContext)


def set_up(app: web.Application, settings: GatewaySettings) -> None:
    """Add the context to an application; connects to nothing yet."""
    app[RESPONSE_CONTEXT] = ResponseContext(open_archive(settings))
    app.on_cleanup.append(_close)


async def _close(app: web.Application) -> None:
    await app[RESPONSE_CONTEXT].archive.close()
