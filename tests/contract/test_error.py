"""Every error code in every dialect, as a response and as the end of a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.dialects.anthropic import messages
from gateway.dialects.base import Stamp
from gateway.dialects.llama import native
from gateway.dialects.openai import chat, completions
from gateway.dialects.openai.responses import dialect as responses
from shared.errors import CODES, ServiceError, to_message
from shared.pb import text_pb2 as pb
from tests import spec
from tests.contract.harness import Harness
from tests.wait import until

# Code → status, and the type in the reference's envelope and in Anthropic's.
FORMS = {
    "invalid_request": (400, "invalid_request_error", "invalid_request_error"),
    "context_length_exceeded": (400, "invalid_request_error", "invalid_request_error"),
    "unsupported_tokenizer": (400, "invalid_request_error", "invalid_request_error"),
    "payload_too_large": (413, "invalid_request_error", "request_too_large"),
    "unsupported_encoding": (415, "invalid_request_error", "invalid_request_error"),
    "upgrade_required": (426, "invalid_request_error", "invalid_request_error"),
    "missing_api_key": (401, "missing_api_key", "authentication_error"),
    "invalid_api_key": (401, "invalid_api_key", "authentication_error"),
    "feature_disabled": (403, "feature_disabled", "permission_error"),
    "not_found": (404, "not_found", "not_found_error"),
    "model_not_found": (404, "not_found", "not_found_error"),
    "method_not_allowed": (405, "invalid_request_error", "invalid_request_error"),
    "cancelled": (499, "cancelled", "api_error"),
    "not_implemented": (501, "not_implemented", "not_implemented"),
    "not_supported": (501, "not_supported_error", "not_supported_error"),
    "server_busy": (503, "server_busy", "overloaded_error"),
    "request_memory_budget_exceeded": (
        503,
        "request_memory_budget_exceeded",
        "request_memory_budget_exceeded",
    ),
    "model_loading": (503, "server_busy", "overloaded_error"),
    "worker_unavailable": (503, "server_error", "api_error"),
    "store_unavailable": (503, "server_error", "api_error"),
    "watch_missing": (503, "server_error", "api_error"),
    "timeout": (504, "server_timeout", "timeout_error"),
    "out_of_vocabulary": (500, "server_error", "api_error"),
    "engine_failed": (500, "server_error", "api_error"),
    "worker_hung": (500, "server_error", "api_error"),
    "internal": (500, "server_error", "api_error"),
}
# Codes of a lost worker, after which a request is resumed first.
LOSSES = {"worker_unavailable", "engine_failed", "worker_hung", "watch_missing"}
KEY = {"Authorization": "Bearer sesame"}


def end_of_chunks(stream: str) -> Any:
    """Return the error of a stream of chunks: in the last chunk before [DONE]."""
    assert stream.endswith("data: [DONE]\n\n")
    *earlier, last = spec.read_events(stream)
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in earlier)
    assert last["choices"][0]["finish_reason"] == "error"
    return last["error"]


def end_of_messages(stream: str) -> Any:
    """Return the error of a message stream: its last event."""
    *earlier, last = spec.read_events(stream)
    assert "event: error\ndata: " in stream
    assert all(event["type"] not in ("error", "message_stop") for event in earlier)
    assert last["type"] == "error"
    return last["error"]


def end_of_native(stream: str) -> Any:
    """Return the error of a native stream: its last event, with the status as code."""
    *earlier, last = spec.read_events(stream)
    assert all(not event["stop"] for event in earlier)
    assert last.keys() == {"error"}
    kinds = {(status, kind) for status, kind, _ in FORMS.values()}
    assert (last["error"]["code"], last["error"]["type"]) in kinds
    return last["error"]


def end_of_responses(stream: str) -> Any:
    """Return the error of a response stream: an error event, then the failed response."""
    *earlier, error, last = spec.read_events(stream)
    assert all(event["type"] not in ("error", "response.failed") for event in earlier)
    assert (error["type"], last["type"]) == ("error", "response.failed")
    assert last["response"]["status"] in ("failed", "cancelled")
    numbers = [event["sequence_number"] for event in (*earlier, error, last)]
    assert numbers == list(range(len(numbers)))
    return error | {"type": error["code"]}


@dataclass(frozen=True)
class Dialect:
    """Requests of a dialect, and how to read its errors.

    Attributes:
        column: of FORMS.
        event: component of the specification; none for a dialect that nobody specifies.
        told: what a stream calls errors, where that is not what an answer calls them.
    """

    module: Any
    path: str
    column: int
    vendor: str
    event: str | None
    end: Callable[[str], Any]
    ask: Callable[[str], dict[str, Any]]
    told: Mapping[str, str] = field(default_factory=dict)


def say(prompt: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": prompt}]}


DIALECTS = {
    "chat": Dialect(
        chat,
        "/v1/chat/completions",
        1,
        "openai",
        "CreateChatCompletionStreamResponse",
        end_of_chunks,
        say,
    ),
    "completions": Dialect(
        completions,
        "/v1/completions",
        1,
        "openai",
        "CreateCompletionResponse",
        end_of_chunks,
        lambda text: {"prompt": text},
    ),
    "responses": Dialect(
        responses,
        "/v1/responses",
        1,
        "openai",
        "ResponseStreamEvent",
        end_of_responses,
        lambda text: {"input": text, "model": "fake"},
        {
            "context_length_exceeded": "context_length_exceeded",
            "model_not_found": "model_not_found",
            "server_busy": "server_overloaded",
            "model_loading": "server_overloaded",
        },
    ),
    "native": Dialect(
        native, "/completion", 1, "openai", None, end_of_native, lambda text: {"prompt": text}
    ),
    "messages": Dialect(
        messages,
        "/v1/messages",
        2,
        "anthropic",
        "MessageStreamEvent",
        end_of_messages,
        lambda text: say(text) | {"max_tokens": 64, "model": "fake"},
    ),
}


@pytest.fixture(params=DIALECTS)
def dialect(request) -> Dialect:
    return DIALECTS[request.param]


def share_codes(dialect: Dialect) -> list[str]:
    """Return a dialect's share of the codes that a worker sends: together they have all.

    What each dialect makes of every code is tested without a server.
    """
    dialects = list(DIALECTS.values())
    return sorted(CODES.keys() - LOSSES)[dialects.index(dialect) :: len(dialects)]


def check(dialect: Dialect, code: str, body: Any, message: str | None = None) -> None:
    """Check the whole body of an error."""
    assert spec.find_errors(dialect.vendor, "ErrorResponse", body) == []
    error = body["error"]
    assert error["type"] == FORMS[code][dialect.column], code
    assert error["message"] if message is None else error["message"] == message


def check_end(dialect: Dialect, code: str, stream: str, message: str) -> None:
    """Check a stream that has failed."""
    error = dialect.end(stream)
    assert error["type"] == dialect.told.get(code, FORMS[code][dialect.column]), code
    assert error["message"] == message
    for event in spec.read_events(stream) if dialect.event else ():
        is_error = dialect.vendor == "anthropic" and event["type"] == "error"
        component = "ErrorResponse" if is_error else dialect.event
        assert spec.find_errors(dialect.vendor, component, event) == []


def test_the_table_has_every_code():
    assert FORMS.keys() == CODES.keys()


@pytest.mark.parametrize("code", CODES)
def test_every_code_as_a_response(dialect, code):
    reply = dialect.module.error(ServiceError(code, "It failed.", "field", 0.5))
    assert reply.status == FORMS[code][0]
    assert reply.headers["Retry-After"] == "1"
    assert reply.headers["Content-Type"] == "application/json"
    check(dialect, code, json.loads(reply.body), "It failed.")


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("code", CODES)
def test_every_code_as_the_end_of_a_stream(dialect, code, started):
    body = json.dumps(dialect.ask("x") | {"stream": True}).encode()
    parsed = dialect.module.parse(body, Stamp("x-1", 1_715_000_000_000_000_000, 1))
    renderer = dialect.module.renderer(parsed, "fake")
    items: list[pb.Accepted | pb.Event] = []
    if started:
        items = [
            pb.Accepted(prompt_tokens=3),
            pb.Event(started=pb.Started()),
            pb.Event(block_start=pb.BlockStart(kind=pb.BlockStart.KIND_ANSWER)),
            pb.Event(delta=pb.Delta(text="so")),
        ]
    failed = pb.Failed(error=to_message(ServiceError(code, "It failed.")))
    stream = b"".join(map(renderer.feed, [*items, pb.Event(failed=failed)])).decode()
    check_end(dialect, code, stream, "It failed.")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_of_the_worker_is_a_status(harness: Harness, dialect, stream):
    await harness.start()
    for code in share_codes(dialect):
        asked = dialect.ask(f"[refuse={code}]") | {"stream": stream}
        async with harness.session.post(dialect.path, json=asked) as reply:
            assert (reply.status, reply.content_type) == (FORMS[code][0], "application/json")
            check(dialect, code, await reply.json(), "Refused as the script says.")


async def test_a_failure_after_the_headers_is_reported_in_the_stream(harness: Harness, dialect):
    await harness.start()
    for code in share_codes(dialect):
        asked = dialect.ask(f"[fail={code}]") | {"stream": True}
        async with harness.session.post(dialect.path, json=asked) as reply:
            assert (reply.status, reply.content_type) == (200, "text/event-stream")
            check_end(dialect, code, await reply.text(), "Failed as the script says.")
        async with harness.session.post(dialect.path, json=asked | {"stream": False}) as reply:
            assert reply.status == FORMS[code][0]
            check(dialect, code, await reply.json(), "Failed as the script says.")


async def test_refusals_before_the_handler(harness: Harness, dialect):
    await harness.start(api_key=("sesame",), max_body_bytes=4096, strict_model=True)
    large = dialect.ask("x" * 5000)
    asked = [
        ("POST", {}, {"json": dialect.ask("x")}, "missing_api_key"),
        ("POST", {"X-Api-Key": "x"}, {"json": dialect.ask("x")}, "invalid_api_key"),
        ("GET", KEY, {}, "method_not_allowed"),
        ("POST", KEY, {"json": large}, "payload_too_large"),
        ("POST", KEY | {"Content-Encoding": "compress"}, {"data": b"x"}, "unsupported_encoding"),
        ("POST", KEY, {"data": b"{"}, "invalid_request"),
        ("POST", KEY, {"json": dialect.ask("x") | {"model": "gpt-4o"}}, "model_not_found"),
    ]
    for method, headers, options, code in asked:
        async with harness.session.request(
            method, dialect.path, headers=headers, **options
        ) as reply:
            assert reply.status == FORMS[code][0], code
            check(dialect, code, await reply.json())


@pytest.mark.parametrize(
    ("ready_once", "code"), [(False, "model_loading"), (True, "worker_unavailable")]
)
async def test_an_unreachable_worker(harness: Harness, dialect, ready_once, code):
    await harness.start(wait=ready_once)
    if ready_once:
        await harness.worker.stop()
        await until(lambda: harness.context.registry.default().state == "down")
    for stream in (False, True):
        asked = dialect.ask("x") | {"stream": stream}
        async with harness.session.post(dialect.path, json=asked) as reply:
            assert reply.status == 503
            assert int(reply.headers["Retry-After"]) >= 1
            check(dialect, code, await reply.json())
