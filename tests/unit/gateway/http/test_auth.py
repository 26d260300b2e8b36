"""API keys: sources and checks."""

from __future__ import annotations

import argparse
import logging

import pytest

from gateway.http.auth import Keys
from shared.config import add_arguments, resolve
from shared.declaration import ConfigError
from shared.errors import ServiceError
from shared.settings import GatewaySettings


def read_keys(*flags: str, env: dict[str, str] | None = None, table: dict | None = None):
    parser = argparse.ArgumentParser()
    add_arguments(parser, [GatewaySettings])
    arguments = parser.parse_args(flags)
    return resolve(GatewaySettings, arguments, env or {}, table or {}, "gateway").api_key


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("a", ("a",)),
        ("a,b", ("a", "b")),
        (" a , b", (" a ", " b")),
        ('"a,b",c', ("a,b", "c")),
        ('"say ""hi""",c', ('say "hi"', "c")),
        ("a,,b,", ("a", "b")),
    ],
)
def test_a_list_of_keys_is_csv(text, keys):
    assert read_keys("--api-key", text) == keys


def test_keys_of_all_sources_are_accepted():
    keys = read_keys(
        "--api-key", "a", "--api-key", "b", env={"LLAMA_API_KEY": "c,d"}, table={"api_key": ["e"]}
    )
    assert keys == ("a", "b", "c", "d", "e")


@pytest.mark.parametrize("text", ["", ",", '""'])
def test_an_empty_list_of_keys_stops_the_start(text):
    with pytest.raises(ConfigError):
        read_keys("--api-key", text)
    with pytest.raises(ConfigError):
        read_keys(env={"LLAMA_API_KEY": text})


def passes(keys: Keys, path: str = "/v1/models", **headers: str) -> str:
    """Return "" or the error code."""
    try:
        keys.check(path, {name.replace("_", "-"): value for name, value in headers.items()})
    except ServiceError as failure:
        return failure.code
    return ""


def test_without_keys_everything_is_open():
    assert passes(Keys([], [])) == ""


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "missing_api_key"),
        ({"Authorization": ""}, "missing_api_key"),
        ({"Authorization": "Bearer "}, "missing_api_key"),
        ({"Authorization": "Bearer sesame"}, ""),
        ({"Authorization": "sesame"}, ""),
        ({"Authorization": "Bearer second"}, ""),
        ({"Authorization": "bearer sesame"}, ""),
        ({"Authorization": "BEARER  sesame"}, ""),
        ({"Authorization": "Basic sesame"}, "invalid_api_key"),
        ({"Authorization": "Bearer sesame "}, "invalid_api_key"),
        ({"Authorization": "Bearer SESAME"}, "invalid_api_key"),
        ({"Authorization": "Bearer \udcff"}, "invalid_api_key"),
        ({"X_Api_Key": "sesame"}, ""),
        ({"X_Api_Key": "Bearer sesame"}, ""),
        ({"X_Api_Key": "wrong"}, "invalid_api_key"),
        ({"Authorization": "", "X_Api_Key": "sesame"}, ""),
        ({"Authorization": "Bearer of-another-service", "X_Api_Key": "sesame"}, ""),
        ({"Authorization": "Bearer sesame", "X_Api_Key": "wrong"}, ""),
        ({"Authorization": "wrong", "X_Api_Key": "wrong"}, "invalid_api_key"),
    ],
)
def test_credentials(headers, code):
    assert passes(Keys(["sesame", "second"], []), **headers) == code


@pytest.mark.parametrize("path", ["/", "/health", "/v1/health"])
def test_health_needs_no_key(path):
    assert passes(Keys(["sesame"], []), path) == ""


@pytest.mark.parametrize("path", ["/health/", "//health", "/metrics", "/nowhere", "/v1/models"])
def test_all_other_paths_need_a_key(path):
    assert passes(Keys(["sesame"], []), path) == "missing_api_key"


def test_key_files_have_a_key_per_line(tmp_path, caplog):
    path = tmp_path / "keys"
    path.write_bytes(b"# comment\n\nfirst\n second\n#no\nthird\r\n")
    with caplog.at_level(logging.WARNING):
        keys = Keys([], [path])
    assert "first" not in caplog.text
    assert "Windows" in caplog.text
    assert [passes(keys, Authorization=key) for key in ("first", " second", "third\r")] == [""] * 3
    assert passes(keys, Authorization="#no") == "invalid_api_key"
    assert passes(keys, Authorization="third") == "invalid_api_key"


def test_a_missing_or_empty_key_file_stops_the_start(tmp_path):
    (tmp_path / "empty").write_text("# nothing\n")
    for name in ("empty", "missing"):
        with pytest.raises(ConfigError, match=name):
            Keys([], [tmp_path / name])
