"""Settings: where values come from, what is refused and how `--help` shows them."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import re
import tomllib

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy import cli
from deploy.run import preflight, resolution
from shared.config import add_arguments, check_keys, resolve
from shared.declaration import ConfigError, entries
from shared.settings import (
    AudioSettings,
    EmbedSettings,
    GatewaySettings,
    RerankSettings,
    TextSettings,
)


def list_out_of_bounds():
    """Yield the numbers next to the bounds of every setting."""
    for group in resolution.GROUPS:
        for entry in entries(group):
            least, most = entry.bounds.ge, entry.bounds.le
            outside = [] if least is None else [least - 1]
            outside += [] if most is None else [most + 1]
            for number in outside:
                if str(number) not in entry.declaration.means:
                    label = f"{group.__name__}.{entry.name}={number}"
                    yield pytest.param(group, entry, number, id=label)


@functools.cache
def make_parser(group):
    parser = argparse.ArgumentParser()
    add_arguments(parser, [group])
    return parser


def read(group, *words, environ=None, table=None):
    arguments = make_parser(group).parse_args(words)
    return resolve(group, arguments, environ or {}, table or {}, "table")


def complain(group, *words, **sources):
    with pytest.raises(ConfigError) as failure:
        read(group, *words, **sources)
    message = str(failure.value)
    assert "\n" not in message
    return message


def test_flag_beats_environment_beats_file_beats_default():
    words, environ, table = ("--port", "1"), {"MLXCEL_PORT": "2"}, {"port": 3}
    assert read(GatewaySettings, *words, environ=environ, table=table).port == 1
    assert read(GatewaySettings, environ=environ, table=table).port == 2
    assert read(GatewaySettings, table=table).port == 3
    assert read(GatewaySettings).port == 8080


def test_the_first_environment_name_that_is_set_wins():
    environ = {"LLAMA_ARG_PORT": "1", "MLXCEL_PORT": "2"}
    assert read(GatewaySettings, environ=environ).port == 2
    del environ["MLXCEL_PORT"]
    assert read(GatewaySettings, environ=environ).port == 1


@pytest.mark.parametrize("flag", ["-c", "--ctx-size"])
def test_every_flag_of_a_setting_sets_it(flag):
    assert read(TextSettings, flag, "512").ctx_size == 512


def test_additive_settings_collect_the_values_of_all_sources():
    words = ("--api-key", "a", "--api-key", "b,c")
    found = read(
        GatewaySettings, *words, environ={"LLAMA_API_KEY": "d"}, table={"api_key": ["e,f"]}
    )
    assert found.api_key == ("a", "b", "c", "d", "e,f")


def test_lists_that_are_not_additive_come_from_one_source():
    found = read(TextSettings, "--alias", "a", "--alias", "b", table={"alias": ["c"]})
    assert found.alias == ("a", "b")


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ((), True),
        (("--slots",), True),
        (("--no-slots",), False),
        (("--slots=false",), False),
        (("--slots", "off"), False),
        (("--slots=on",), True),
        (("--no-slots", "--slots"), True),
    ],
)
def test_a_switch_may_be_given_a_value(words, value):
    assert read(GatewaySettings, *words, "--port", "1").slots is value


@pytest.mark.parametrize("word", ["1", "TRUE", "on", "yes", "enabled", " true "])
def test_words_that_turn_a_switch_on(word):
    assert read(GatewaySettings, environ={"LLAMA_ARG_ENDPOINT_METRICS": word}).metrics is True


@pytest.mark.parametrize(
    ("group", "name", "text", "value"),
    [
        (GatewaySettings, "max_body_bytes", "12M", 12 * 2**20),
        (GatewaySettings, "max_body_bytes", "1.5KiB", 1536),
        (GatewaySettings, "host", "/run/a.sock", "/run/a.sock"),
        (GatewaySettings, "host", "::", "::"),
        (TextSettings, "parallel", "-1", 4),
        (TextSettings, "kv_bits", "8", 8),
        (TextSettings, "dry_sequence_breakers", "\\n", ("\n",)),
        (TextSettings, "dry_sequence_breakers", "none", ()),
        (TextSettings, "alias", "a, b", ("a", "b")),
        (EmbedSettings, "queue_depth", "0", 1),
        (EmbedSettings, "request_timeout_s", "0", 120),
        (RerankSettings, "batch_size", "0", 8),
        (AudioSettings, "request_timeout_s", "0", 120),
    ],
)
def test_text_of_a_flag_and_of_the_file_means_the_same(group, name, text, value):
    flag = next(entry.flag for entry in entries(group) if entry.name == name)
    assert getattr(read(group, f"{flag}={text}"), name) == value
    assert getattr(read(group, table={name: text}), name) == value


def test_a_value_that_stands_for_another_does_so_as_a_number_too():
    assert read(AudioSettings, table={"queue_depth": 0}).queue_depth == 1


@pytest.mark.parametrize(("group", "entry", "number"), [*list_out_of_bounds()])
def test_a_number_out_of_bounds_is_refused_from_every_source(group, entry, number):
    name = entry.declaration.env[0]
    sources = {
        entry.flag: {"words": (f"{entry.flag}={number}",)},
        name: {"environ": {name: str(number)}},
        f"table.{entry.name}": {"table": {entry.name: number}},
    }
    for source, given_there in sources.items():
        message = complain(group, *given_there.pop("words", ()), **given_there)
        assert re.fullmatch(rf"{re.escape(source)}: '?{number}'? is not a .*", message)
        assert str(entry.bounds.ge) in message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--port", "x"), "--port: 'x' is not a whole number from 0 to 65535"),
        (("--slots=maybe",), "--slots: 'maybe' is not true or false"),
        (("--max-body-bytes", "1X"), "'1X' is not a size such as 12G or 512M of at least 1"),
        (("--log-level", "all"), "'all' is not one of debug, info, warning, error"),
        (("--host", "a.sock"), "'a.sock' is not an address, or the path of a socket"),
        (("--api-prefix", "a/"), "'a/' is not a path such as /llm"),
        (("--allowed-origins", "a.example"), "'a.example' is not an origin such as https://"),
    ],
)
def test_a_message_says_what_is_expected(words, message):
    assert message in complain(GatewaySettings, *words)


@pytest.mark.parametrize("value", [5, ["a"], {"a": 1}, 1.5])
def test_a_value_of_another_type_in_the_file_is_refused(value):
    assert "log_level" in complain(GatewaySettings, table={"log_level": value})


def test_a_secret_is_in_no_message():
    assert complain(GatewaySettings, table={"api_key": [5]}).startswith(
        "table.api_key: the value is not a key"
    )
    assert "s3cret" not in complain(GatewaySettings, table={"store": ["s3cret"]})


def test_an_unknown_key_of_a_table_is_refused():
    with pytest.raises(ConfigError, match="gateway: unknown key 'prot'"):
        check_keys({"prot": 1}, ("port",), "gateway")


def numbers(entry):
    least, most = entry.bounds.ge, entry.bounds.le
    if entry.name == "request_memory_budget":
        least = 1  # 0 is refused as text.
    if entry.kind is int:
        return st.integers(-(2**31) if least is None else least, 2**40 if most is None else most)
    return st.floats(
        least, most, allow_nan=False, allow_infinity=False, allow_subnormal=False, width=64
    )


def values(entry):
    """Return a strategy for what a flag can set."""
    if entry.choices:
        return st.sampled_from(entry.choices)
    if entry.kind is bool:
        return st.booleans()
    if entry.kind in (int, float):
        return numbers(entry)
    if entry.kind is str and entry.name not in ("host", "api_prefix"):
        return st.text(st.characters(codec="utf-8", exclude_characters="\0"))
    return st.just(entry.default)


@pytest.mark.parametrize("group", resolution.GROUPS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_values_survive_flag_file_and_reading_back(group, data):
    plain = [entry for entry in entries(group) if entry.kind is not tuple]
    drawn = {entry.name: data.draw(values(entry)) for entry in plain}
    settled = read(group, *(f"{entry.flag}={drawn[entry.name]}" for entry in plain))
    assert drawn.items() <= dataclasses.asdict(settled).items()
    table = tomllib.loads(tomli_w.dumps(dataclasses.asdict(settled)))
    assert read(group, table=table) == settled


def test_preflight_knows_the_address_as_the_gateway_declares_it():
    for name, (default, names) in preflight.ADDRESS.items():
        (entry,) = (entry for entry in entries(GatewaySettings) if entry.name == name)
        assert (entry.default, entry.declaration.env) == (default, names)


def read_help():
    return cli.build_parser().format_help()


def test_help_shows_the_common_options_first():
    text = read_help()
    titles = re.findall(r"^([A-Z][\w ]+):$", text, re.MULTILINE)
    assert titles[0] == "Common options"
    assert {"Gateway", "Model and slots", "Sampling defaults", "Audio worker"} < set(titles)
    common = text[text.index("Common options:") : text.index("\nGateway:")]
    for flag in ("--model", "--host", "--port", "--api-key", "--ctx-size", "--parallel"):
        assert flag in common
        # From Python 3.13 on, what a flag takes stands after the last of its names only.
        assert len(re.findall(rf"(?:  |, ){flag}[ ,\n]", text)) == 1
    assert text.index("--config") < text.index("--api-prefix")


def test_help_names_what_a_flag_takes():
    text = read_help()
    for words in ("--api-key KEY", "--api-key-file FILE", "--prompt-cache-dir DIR", "--host HOST"):
        assert words in text
    for words in ("--port N", "--timeout SECONDS", "--max-body-bytes BYTES", "--kv-bits 0|4|8"):
        assert words in text
    assert not re.search(r"-\w+ (TUPLE|STR|INT|FLOAT)\b", text)


def test_help_names_the_commands_and_the_bounds():
    text = " ".join(read_help().split())
    for name in cli.COMMANDS:
        assert f"mlxcel-server {name} " in text
    assert "(from 0 to 65535; default: 8080; env: MLXCEL_PORT, LLAMA_ARG_PORT)" in text
    assert "(at least 1; 0 means 1; default: 8; env: MLXCEL_AUDIO_QUEUE_DEPTH)" in text
