"""The interface of a dialect and the values it takes and returns.

A dialect is pure functions: parse a body, render events as a stream, render a completion as a
body, render an error. It uses no I/O, no clock and no randomness; a `Stamp` has time and seed.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from gateway.generation.fold import Completion, Item
from shared.errors import ServiceError
from shared.pb import common_pb2 as common
from shared.pb import text_pb2 as pb

# Clients retry after a status of 500 or more, and some after a 401, unless a header forbids it.
_PERMANENT: Final = {
    "missing_api_key",
    "invalid_api_key",
    "not_implemented",
    "not_supported",
    "request_memory_budget_exceeded",
    "worker_hung",
}


@dataclass(frozen=True)
class Policy:
    """Settings of the server that affect parsing and rendering.

    Attributes:
        reasoning_alias: send reasoning as `reasoning` too, beside `reasoning_content`.
        json_object: allow `response_format` of type `json_object`.
        prefill_assistant: continue a last message of the assistant by default.
        seed: default seed; -1 for a random one per request.
        forced_call_wins: a forced tool choice replaces a structured output, instead of a refusal.
        drops_builtin_tools: leave out tools that OpenAI's servers run, instead of a refusal.
        completions_delta: chunks of text completions have `delta`.
        caches_by_session: prompts are cached apart for each session of an API key.
    """

    reasoning_alias: bool = True
    json_object: bool = False
    prefill_assistant: bool = False
    seed: int = -1
    forced_call_wins: bool = False
    drops_builtin_tools: bool = False
    completions_delta: bool = True
    caches_by_session: bool = False


@dataclass(frozen=True)
class Stamp:
    """Id, time and random seed of a request, passed in so that parsing is pure.

    Attributes:
        principal: names the API key; "" without one.
    """

    request_id: str
    arrival_ns: int
    seed: int
    policy: Policy = Policy()
    principal: str = ""

    @staticmethod
    def create(prefix: str, policy: Policy, principal: str) -> Stamp:
        """Return a new stamp; the id starts with `prefix`."""
        # 63 bits: the largest 64-bit value means "random" on the native routes.
        seed = secrets.randbits(63)
        return Stamp(prefix + secrets.token_hex(12), time.time_ns(), seed, policy, principal)

    @property
    def unix_s(self) -> int:
        return self.arrival_ns // 1_000_000_000

    def cache_policy(self, *, enabled: bool | None, session: str = "") -> pb.CachePolicy:
        """Return whether to use the prompt cache, and which requests share its entries.

        Args:
            session: what the client says that its entries belong to. Agents send a new one for
                every session, so it counts only if the server is set so.
        """
        session = session if self.policy.caches_by_session else ""
        key = f"{self.principal}/{session}" if self.principal or session else ""
        return pb.CachePolicy(enabled=enabled, session_key=key)


@dataclass(frozen=True)
class MediaRef:
    """A media part of a request, still to be fetched into `part`."""

    kind: common.Media.Kind.ValueType
    url: str
    path: str
    part: pb.Part


@dataclass(frozen=True)
class Parsed:
    """A canonical request, and fields that only the rendering of its response needs.

    Attributes:
        model: as the client wrote it; None for the default worker.
        counted: whether the reference's metrics count it.
        ping_interval_s: interval of keep-alives in a silent stream, -1 for never; None for the
            server's setting.
    """

    request: pb.GenerateRequest
    model: str | None
    stream: bool
    include_usage: bool
    created_unix_s: int
    counted: bool = True
    ping_interval_s: int | None = None
    media: list[MediaRef] = field(default_factory=list)
    policy: Policy = Policy()

    @property
    def logprobs(self) -> bool:
        return self.request.HasField("logprobs")


@dataclass(frozen=True)
class ErrorReply:
    """An error response in the form of a dialect."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def headers_of(failure: ServiceError) -> dict[str, str]:
    """Return the headers of an error response, the same in every dialect."""
    headers = {"Content-Type": "application/json"}
    if failure.retry_after_s is not None:
        headers["Retry-After"] = str(math.ceil(failure.retry_after_s))
    if failure.code in _PERMANENT:
        headers["x-should-retry"] = "false"
    return headers


class ErrorDialect(Protocol):
    """Renders the errors of a group of routes."""

    def error(self, failure: ServiceError, request_id: str | None = None) -> ErrorReply:
        """Return the HTTP response; some dialects repeat the id of its headers in the body."""


class Renderer(Protocol):
    """Renders the stream of one request."""

    def feed(self, item: Item) -> bytes:
        """Return the bytes of an item, which may be none. Takes each item once, in order."""

    def ping(self) -> bytes:
        """Return a keep-alive for a silent stream; empty where an SSE comment will do."""


P = TypeVar("P", bound=Parsed)


class TextDialect(ErrorDialect, Protocol[P]):
    """The four pure functions of a text route. A module is one.

    A dialect that needs more fields for rendering subclasses `Parsed`.
    """

    ID_PREFIX: str
    # Top-level keys that are read, knowingly ignored, or refused.
    KNOWN: frozenset[str]

    def parse(self, body: bytes, stamp: Stamp) -> P:
        """Return the request of a body.

        Raises:
            ServiceError: `invalid_request`, naming the field, or `not_supported`.
        """

    def renderer(self, parsed: P, model: str) -> Renderer:
        """Return the renderer of a request's stream."""

    def body(self, parsed: P, model: str, completion: Completion) -> bytes:
        """Return the response body of a request without streaming."""
