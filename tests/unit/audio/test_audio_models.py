"""Which models an audio worker runs: those that are there, of those that it is told of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared.fleet import WorkerEntry
from shared.lifecycle import PermanentError
from shared.settings import AudioSettings
from workers.audio import audio_models
from workers.bootstrap import WorkerConfig

WHISPER, KOKORO = {"model_type": "whisper"}, {"istftnet": {}, "plbert": {}}


@pytest.fixture
def find(tmp_path):
    """Return the names of the models found for some settings."""
    for name, config in (("ear", WHISPER), ("ear2", WHISPER), ("mouth", KOKORO)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    entry = WorkerEntry(0, "studio", "audio", "", 1, 0.0, {})

    def run(**models):
        given = {name: str(tmp_path / model) for name, model in models.items()}
        settings = AudioSettings(**given)
        place = WorkerConfig(tmp_path, entry, settings, "", 1.0)
        return [path.name for path in audio_models._find_models(settings, place)]

    return run


def test_a_worker_runs_either_or_both(find):
    assert find(model="ear") == ["ear"]
    assert find(model="mouth") == ["mouth"]
    assert find(speech_model="mouth") == ["mouth"]
    assert find(model="ear", speech_model="mouth") == ["ear", "mouth"]


def test_a_voice_that_is_missing_keeps_nothing_from_being_heard(find, caplog):
    assert find(model="ear", speech_model="none") == ["ear"]
    assert "none does not exist" in caplog.text
    assert "speech is not served" in caplog.text
    with pytest.raises(PermanentError, match="does not exist"):
        find(speech_model="none")
    with pytest.raises(PermanentError, match="does not exist"):
        find(model="none", speech_model="mouth")


def test_without_espeak_nothing_is_spoken_and_it_is_said(find, caplog, monkeypatch):
    monkeypatch.setenv("PATH", str(Path("nowhere").absolute()))
    assert find(model="ear", speech_model="mouth") == ["ear"]
    assert "espeak-ng is not installed" in caplog.text
    with pytest.raises(PermanentError, match="apt-get install espeak-ng"):
        find(model="mouth")


def test_two_models_of_one_kind_are_refused(tmp_path, find):
    settings = AudioSettings(model=str(tmp_path / "ear"), speech_model=str(tmp_path / "ear2"))
    entry = WorkerEntry(0, "studio", "audio", "", 1, 0.0, {})
    with pytest.raises(PermanentError, match="do the same"):
        audio_models.load(WorkerConfig(tmp_path, entry, settings, "", 1.0), None)
