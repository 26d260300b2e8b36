"""Flags, environment and fleet file become one fleet."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from deploy import cli
from deploy.run import resolution
from shared import rundir
from shared.declaration import ConfigError, entries
from shared.fleet import load_fleet
from shared.lifecycle import PermanentError


@pytest.fixture
def model(tmp_path):
    """A folder that looks like a model."""
    folder = tmp_path / "models" / "tiny"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture
def settle(tmp_path, model):
    """Settle a command line against a fleet file, or against none."""
    default = tmp_path / "etc" / "default.toml"
    default.parent.mkdir()
    default.write_text('[[workers]]\nname = "default"\nmodel = "../models/tiny"\n')

    def run(*words, file=None, environ=None):
        words = list(words)
        if file is not None:
            (tmp_path / "etc" / "fleet.toml").write_text(file)
            words += ["--config", str(tmp_path / "etc" / "fleet.toml")]
        options = cli.build_parser().parse_args(words)
        fleet = resolution.choose(options, environ or {}, default)
        return resolution.settle(fleet, options, environ or {})

    return run


def test_a_model_alone_makes_a_fleet_of_one_worker(settle, model):
    fleet = settle("-m", str(model), "--port", "9000", "--parallel", "8")
    assert fleet.gateway["port"] == 9000
    assert [entry.name for entry in fleet.workers] == ["text"]
    assert fleet.workers[0].options["model"] == str(model)
    assert fleet.workers[0].options["parallel"] == 8


def test_a_model_of_the_environment_does_so_too(settle, model):
    fleet = settle(environ={"LLAMA_ARG_MODEL": str(model)})
    assert fleet.workers[0].options["model"] == str(model)


def test_without_anything_the_default_fleet_is_taken(settle, model):
    fleet = settle()
    assert fleet.workers[0].name == "default"
    assert fleet.workers[0].options["model"] == str(model)


def test_flag_beats_environment_beats_file(settle):
    file = '[gateway]\nport = 1000\n[[workers]]\nname = "a"\nmodel = "o/n"\ntop_k = 1\n'
    environ = {"MLXCEL_PORT": "2000", "LLAMA_ARG_TOP_K": "2"}
    assert settle(file=file).gateway["port"] == 1000
    assert settle(file=file, environ=environ).gateway["port"] == 2000
    settled = settle("--port", "3000", "--top-k", "3", file=file, environ=environ)
    assert settled.gateway["port"] == 3000
    assert settled.workers[0].options["top_k"] == 3


@pytest.mark.parametrize(
    ("words", "file", "environ", "complaint"),
    [
        (["--temp", "-1"], "", {}, "--temp: '-1' is not a number of at least 0"),
        (["--temp", "nan"], "", {}, "--temp: 'nan' is not a number of at least 0"),
        (["--top-p", "7"], "", {}, "--top-p: '7' is not a number from 0 to 1"),
        (["-n", "-5"], "", {}, "--predict: '-5' is not a whole number of at least -1"),
        (
            [],
            "",
            {"LLAMA_ARG_CTX_SIZE": "-5"},
            "LLAMA_ARG_CTX_SIZE: '-5' is not a whole number of at least 0",
        ),
        (
            [],
            "",
            {"MLXCEL_SEED": "-2"},
            "MLXCEL_SEED: '-2' is not a whole number from -1 to 9223372036854775807",
        ),
        (
            [],
            "parallel = 300\n",
            {},
            r"workers\[0\]\.parallel: 300 is not a whole number from 1 to 256",
        ),
        ([], "min_p = 2\n", {}, r"workers\[0\]\.min_p: 2 is not a number from 0 to 1"),
    ],
)
def test_a_number_out_of_its_bounds_stops_the_start(settle, words, file, environ, complaint):
    with pytest.raises(ConfigError, match=f"^{complaint}$"):
        settle(*words, file='[[workers]]\nmodel = "o/n"\n' + file, environ=environ)


@pytest.mark.parametrize(("text", "slots"), [("-1", 4), ("8", 8)])
def test_the_number_of_slots_may_be_left_to_the_server(settle, text, slots):
    assert settle("-m", "o/n", "--parallel", text).workers[0].options["parallel"] == slots


def test_port_0_is_any_that_is_free(model):
    options = cli.build_parser().parse_args(["-m", str(model), "--port", "0"])
    first, second = (cli.prepare(options, {}).gateway["port"] for _ in range(2))
    assert first > 0
    assert second > 0


def test_keys_of_all_sources_add_up(settle):
    settled = settle(
        "--api-key", "a", file='[gateway]\napi_key = ["c"]\n', environ={"LLAMA_API_KEY": "b"}
    )
    assert sorted(settled.gateway["api_key"]) == ["a", "b", "c"]


def test_paths_of_the_file_start_at_its_folder_and_those_of_flags_here(
    settle, tmp_path, model, monkeypatch
):
    monkeypatch.chdir(tmp_path / "models")
    file = '[[workers]]\nname = "a"\nmodel = "../models/tiny"\nchat_template_file = "t.jinja"\n'
    options = settle("--api-key-file", "keys", file=file)
    assert options.workers[0].options["model"] == str(model)
    assert options.workers[0].options["chat_template_file"] == str(tmp_path / "etc/t.jinja")
    assert options.gateway["api_key_file"] == [str(tmp_path / "models" / "keys")]
    assert settle("-m", "tiny").workers[0].options["model"] == str(model)


def test_a_hub_name_stays_a_name(settle):
    fleet = settle("-m", "owner/name")
    resolution.check_models(fleet)
    assert fleet.workers[0].options["model"] == "owner/name"


def test_a_flag_for_one_worker_is_refused_for_several(settle):
    file = '[[workers]]\nname = "a"\nmodel = "o/a"\n[[workers]]\nname = "b"\nmodel = "o/b"\n'
    with pytest.raises(ConfigError, match="--n-parallel suits one worker"):
        settle("--parallel", "2", file=file)
    assert settle("--log-level", "debug", file=file).workers[1].options["log_level"] == "debug"


def test_a_flag_suits_the_one_worker_of_its_kind(settle):
    file = '[[workers]]\nmodel = "o/a"\n[[workers]]\nkind = "embed"\nmodel = "o/b"\n'
    text, embed = settle("--parallel", "2", "--pooling", "cls", "--offline", file=file).workers
    assert (text.options["model"], embed.options["model"]) == ("o/a", "o/b")
    assert (text.options["parallel"], embed.options["pooling"]) == (2, "cls")
    assert text.options["offline"] and embed.options["offline"]


def test_a_flag_for_a_kind_of_worker_that_is_not_there_is_refused(settle):
    with pytest.raises(ConfigError, match="--pooling is for workers of kind embed"):
        settle("-m", "o/a", "--pooling", "cls")


@pytest.fixture
def encoder(tmp_path):
    """A folder that looks like an embedding model."""
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "bert"}')
    return folder


def test_an_embedding_model_given_as_the_model_is_served_as_one(settle, encoder):
    (worker,) = settle("-m", str(encoder), "-a", "x,y", "--pooling", "cls").workers
    assert (worker.kind, worker.options["model"]) == ("embed", str(encoder))
    assert (worker.options["alias"], worker.options["pooling"]) == (("x", "y"), "cls")


@pytest.mark.parametrize(
    ("config", "modules"),
    [
        ({"model_type": "gemma3_text", "use_bidirectional_attention": True}, "[]"),
        ({"model_type": "qwen3"}, '[{"type": "sentence_transformers.models.Pooling"}]'),
    ],
)
def test_a_decoder_that_embeds_is_served_so(settle, encoder, config, modules):
    (encoder / "config.json").write_text(json.dumps(config))
    (encoder / "modules.json").write_text(modules)
    assert [worker.kind for worker in settle("-m", str(encoder)).workers] == ["embed"]


def test_a_classifier_is_served_as_a_reranker(settle, encoder):
    config = {"model_type": "bert", "architectures": ["BertForSequenceClassification"]}
    (encoder / "config.json").write_text(json.dumps(config))
    assert [worker.kind for worker in settle("-m", str(encoder)).workers] == ["rerank"]


def test_flags_say_what_a_model_that_looks_like_text_is_served_as(settle, model):
    kinds = [
        [worker.kind for worker in settle("-m", str(model), *words).workers]
        for words in (
            (),
            ("--embeddings",),
            ("--rerank",),
            ("--embeddings", "--pooling", "rank"),
            ("--reranking", "--embedding-model", "o/b"),
        )
    ]
    assert kinds == [["text"], ["embed"], ["rerank"], ["rerank"], ["rerank", "embed"]]


def test_a_flag_that_leaves_text_out_goes_with_a_model_of_its_kind(settle):
    for flag, model in (("--embeddings", "--embedding-model"), ("--rerank", "--reranker-model")):
        (worker,) = settle(flag, model, "o/b").workers
        assert worker.options["model"] == "o/b"


@pytest.mark.parametrize(
    "words",
    [
        ("--embeddings",),
        ("--embeddings", "--reranking", "-m", "o/a"),
        ("--embeddings", "-m", "o/a", "--embedding-model", "o/b"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(settle, words):
    with pytest.raises(ConfigError):
        settle(*words)


def test_each_kind_of_model_makes_a_worker_of_its_own(settle):
    words = ("-m", "o/a", "--embedding-model", "o/b", "--reranker-model", "o/c")
    workers = settle(*words, environ={"LLAMA_ARG_EMBEDDING_MODEL": "o/x"}).workers
    made = [(entry.name, entry.kind, entry.options["model"]) for entry in workers]
    assert made == [("text", "text", "o/a"), ("embed", "embed", "o/b"), ("rerank", "rerank", "o/c")]


@pytest.mark.parametrize(
    "config", [{"model_type": "whisper"}, {"istftnet": {}, "plbert": {}, "n_token": 178}]
)
def test_a_model_that_hears_or_speaks_is_served_as_one(settle, encoder, config):
    (encoder / "config.json").write_text(json.dumps(config))
    (worker,) = settle("-m", str(encoder), "--speech-model", "o/voice").workers
    assert (worker.kind, worker.models) == ("audio", (str(encoder), "o/voice"))


def test_a_model_that_speaks_is_enough_for_a_worker(settle, model):
    (worker,) = settle("--speech-model", "o/voice").workers
    assert (worker.kind, worker.models) == ("audio", ("o/voice",))
    text, audio = settle("-m", str(model), "--speech-model", "o/voice").workers
    assert (text.kind, audio.kind, audio.models) == ("text", "audio", ("o/voice",))


def test_a_speech_model_beside_an_embedding_model_makes_a_worker_too(settle, encoder):
    workers = settle("-m", str(encoder), "--speech-model", "o/voice").workers
    assert [(worker.kind, worker.models) for worker in workers] == [
        ("embed", (str(encoder),)),
        ("audio", ("o/voice",)),
    ]


def test_every_model_of_a_worker_must_be_there(settle, model):
    file = f'[[workers]]\nkind = "audio"\nmodel = "{model}"\nspeech_model = "./later"\n'
    resolution.check_models(settle(file=file), come_later=lambda m: m.endswith("/etc/later"))
    with pytest.raises(PermanentError, match=r"etc/later does not exist"):
        resolution.check_models(settle(file=file))
    with pytest.raises(PermanentError, match="no model given"):
        resolution.check_models(settle(file='[[workers]]\nkind = "audio"\n'))


@pytest.mark.parametrize("given", ["./none", "no/such/folder", "none"])
def test_a_missing_model_folder_is_said(settle, given):
    with pytest.raises(PermanentError, match="does not exist"):
        resolution.check_models(settle("-m", given))


def test_a_file_is_no_model_and_what_one_is_is_said(settle, tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(PermanentError, match=r"model\.gguf is a file.*mlx_lm\.convert"):
        resolution.check_models(settle("-m", str(tmp_path / "model.gguf")))


def test_a_folder_without_config_json_is_said(settle, model):
    (model / "config.json").unlink()
    with pytest.raises(PermanentError, match=r"has no config\.json"):
        resolution.check_models(settle("-m", str(model)))


def test_a_model_that_is_installed_later_may_still_be_missing(settle):
    fleet = settle(file='[[workers]]\nkind = "embed"\nmodel = "./later"\n')
    resolution.check_models(fleet, come_later=lambda model: model.endswith("/later"))
    with pytest.raises(PermanentError, match="does not exist"):
        resolution.check_models(fleet)


def test_a_worker_of_another_machine_needs_no_model_here(settle):
    fleet = settle(file='[[workers]]\nname = "a"\naddress = "mac:1"\nmodel = "/not/here"\n')
    resolution.check_models(fleet)


def test_what_is_written_is_read_back_the_same(settle, tmp_path, model):
    odd = 'käse "quoted" \\ \t\x7f 🙂'
    settled = settle("-m", str(model), "--api-key", odd, "--alias", "x,y", "--top-p", "0.5")
    path = tmp_path / "out.toml"
    rundir.write_private(path, resolution.render(settled))
    read = load_fleet(path)
    assert read.gateway["api_key"] == [odd]
    assert read.workers[0].options["alias"] == ["x", "y"]
    assert read.workers[0].options["top_p"] == 0.5
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_writing_again_replaces_a_file_that_others_could_read(tmp_path):
    path = tmp_path / "fleet.toml"
    path.write_text("old")
    path.chmod(0o644)
    rundir.write_private(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_setting_of_the_environment_reaches_a_process():
    names = [
        name
        for group in resolution.GROUPS
        for entry in entries(group)
        for name in entry.declaration.env
    ]
    environ = dict.fromkeys(names, "1") | {"PATH": os.defpath, "HF_HOME": "/h"}
    assert resolution.strip(environ) == {"PATH": os.defpath, "HF_HOME": "/h"}


def test_every_setting_that_names_a_file_says_so():
    for group in resolution.GROUPS:
        for entry in entries(group):
            assert entry.declaration.is_path == entry.name.endswith(("_file", "_dir"))


def test_help_names_every_flag_and_every_environment_name():
    text = cli.build_parser().format_help()
    for group in resolution.GROUPS:
        for entry in entries(group):
            for word in (*entry.flags, *entry.declaration.env):
                assert word in text
    assert "launchd install" in text


def test_default_fleet_serves_the_starter_models():
    options = cli.build_parser().parse_args([])
    fleet = resolution.choose(options, {}, cli.DEFAULT_CONFIG)
    settled = resolution.settle(fleet, options, {})
    names = [(entry.kind, Path(entry.options["model"]).name) for entry in settled.workers]
    assert names == [
        ("text", "SmolLM2-135M-Instruct"),
        ("embed", "all-MiniLM-L6-v2"),
        ("audio", "whisper-base"),
    ]
    assert [Path(m).name for m in settled.workers[2].models] == ["whisper-base", "Kokoro-82M"]
