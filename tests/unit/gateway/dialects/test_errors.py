"""The error table of the REST reference."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.openai import errors
from shared.errors import CODES, ServiceError


def render(*args, **kwargs):
    reply = errors.error(ServiceError(*args, **kwargs))
    return reply.status, json.loads(reply.body)["error"], reply.headers


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("invalid_request", 400, "invalid_request_error"),
        ("missing_api_key", 401, "missing_api_key"),
        ("invalid_api_key", 401, "invalid_api_key"),
        ("not_found", 404, "not_found"),
        ("payload_too_large", 413, "invalid_request_error"),
        ("not_implemented", 501, "not_implemented"),
        ("not_supported", 501, "not_supported_error"),
        ("server_busy", 503, "server_busy"),
        ("model_loading", 503, "server_busy"),
        ("out_of_vocabulary", 500, "server_error"),
        ("internal", 500, "server_error"),
        ("timeout", 504, "server_timeout"),
    ],
)
def test_status_and_type(code, status, kind):
    body = {"message": "m", "type": kind, "code": None, "param": None}
    assert render(code, "m")[:2] == (status, body)


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_form(code):
    status, body, headers = render(code, "m")
    assert 400 <= status < 600
    assert body["message"] == "m"
    assert headers["Content-Type"] == "application/json"


def test_memory_refusals_have_both_numbers_and_their_code():
    details = {"estimated_bytes": 2048, "budget_bytes": 1024}
    status, body, _ = render("request_memory_budget_exceeded", "m", details=details)
    assert status == 503
    assert body == {
        "message": "m",
        "type": "request_memory_budget_exceeded",
        "code": "request_memory_budget_exceeded",
        "param": None,
        "estimated_bytes": 2048,
        "budget_bytes": 1024,
    }


def test_an_error_has_param_and_retry_after():
    assert render("invalid_request", "m", "messages[0]")[1]["param"] == "messages[0]"
    assert render("server_busy", "m", retry_after_s=0.2)[2]["Retry-After"] == "1"


def test_permanent_errors_forbid_a_retry():
    codes = ("not_supported", "not_implemented", "server_busy", "internal", "invalid_request")
    told = [render(code, "m")[2].get("x-should-retry") for code in codes]
    assert told == ["false", "false", None, None, None]
