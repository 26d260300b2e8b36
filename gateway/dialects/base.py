"""What every dialect offers, and the few values that cross its door.

A dialect is pure functions: parse a body, render events as a stream, render a completion as a
body, render an error. It owns no I/O, no clock and no randomness; those come in as a `Stamp`.
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

# Clients repeat whatever has failed with 500 or more, unless they are told that it is no use.
_PERMANENT: Final = {"not_implemented", "not_supported", "request_memory_budget_exceeded"}


@dataclass(frozen=True)
class Policy:
    """What the server's settings decide about reading requests and writing answers.

    Attributes:
        reasoning_alias: thoughts stand under `reasoning` too, beside `reasoning_content`.
        json_object: `response_format` may ask for any JSON object.
        prefill_assistant: a last message of the assistant is gone on with unasked.
        seed: of requests that name none; -1 for one of their own each.
    """

    reasoning_alias: bool = True
    json_object: bool = False
    prefill_assistant: bool = False
    seed: int = -1


@dataclass(frozen=True)
class Stamp:
    """What a request gets from outside itself, so that parsing stays pure."""

    request_id: str
    arrival_ns: int
    seed: int
    policy: Policy = Policy()

    @staticmethod
    def create(prefix: str, policy: Policy) -> Stamp:
        """Return a fresh one; `prefix` begins the id the client sees."""
        # 63 bits: the largest 64-bit value means "random" on the native routes.
        seed = secrets.randbits(63)
        return Stamp(prefix + secrets.token_hex(12), time.time_ns(), seed, policy)

    @property
    def unix_s(self) -> int:
        """The moment of arrival."""
        return self.arrival_ns // 1_000_000_000


@dataclass(frozen=True)
class MediaRef:
    """A media part of a request, still to be fetched into `part`."""

    kind: common.Media.Kind.ValueType
    url: str
    path: str
    part: pb.Part


@dataclass(frozen=True)
class Parsed:
    """A request in the canonical vocabulary, and what only the answer's form depends on.

    Attributes:
        model: as the client wrote it; None for the default worker.
        counted: whether it belongs to the totals of the reference's metrics.
        ping_interval_s: silence after which its stream gets a sign of life, -1 for never; None
            for what the server is set to.
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
        """Whether log-probabilities were asked for."""
        return self.request.HasField("logprobs")


@dataclass(frozen=True)
class ErrorReply:
    """An error in a dialect's own form."""

    status: int
    body: bytes
    headers: Mapping[str, str]


def headers_of(failure: ServiceError) -> dict[str, str]:
    """Return the headers of an error, the same in every dialect."""
    headers = {"Content-Type": "application/json"}
    if failure.retry_after_s is not None:
        headers["Retry-After"] = str(math.ceil(failure.retry_after_s))
    if failure.code in _PERMANENT:
        headers["x-should-retry"] = "false"
    return headers


class ErrorDialect(Protocol):
    """How one family of paths says that something failed."""

    def error(self, failure: ServiceError) -> ErrorReply:
        """Return the whole HTTP answer."""


class Renderer(Protocol):
    """Renders the stream of one request."""

    def feed(self, item: Item) -> bytes:
        """Return the bytes of an item, which may be none. Takes each item once, in order."""

    def ping(self) -> bytes:
        """Return a keep-alive for a silent stream; empty where an SSE comment will do."""


P = TypeVar("P", bound=Parsed)


class TextDialect(ErrorDialect, Protocol[P]):
    """The four pure functions of a text route. A module is one.

    A dialect whose answer's form depends on more than `Parsed` holds makes it a class of its own.
    """

    ID_PREFIX: str
    # Top-level keys that are read, ignored on purpose, or refused.
    KNOWN: frozenset[str]

    def parse(self, body: bytes, stamp: Stamp) -> P:
        """Return the request a body stands for.

        Raises:
            ServiceError: `invalid_request`, naming the field, or `not_supported`.
        """

    def renderer(self, parsed: P, model: str) -> Renderer:
        """Return the renderer of a request's stream."""

    def body(self, parsed: P, model: str, completion: Completion) -> bytes:
        """Return the answer of a request that does not stream."""
