"""Which of the configured models an audio worker runs."""

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
    """Return the names of the models found for some settings, and what is not available."""
    for name, config in (("whisper", WHISPER), ("other", WHISPER), ("kokoro", KOKORO)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))

    def run(**models):
        settings = AudioSettings(**{name: str(tmp_path / path) for name, path in models.items()})
        paths, unavailable = audio_models.find_models(settings, tmp_path)
        return [path.name for path in paths], unavailable

    return run


def test_a_worker_runs_either_or_both(find):
    assert find(model="whisper") == (["whisper"], {})
    assert find(model="kokoro") == (["kokoro"], {})
    assert find(speech_model="kokoro") == (["kokoro"], {})
    assert find(model="whisper", speech_model="kokoro") == (["whisper", "kokoro"], {})


def test_a_missing_speech_model_does_not_stop_transcription(find):
    found, unavailable = find(model="whisper", speech_model="none")
    assert (found, list(unavailable)) == (["whisper"], ["speech"])
    assert "none does not exist" in unavailable["speech"]
    assert "speech is not served" in unavailable["speech"]
    with pytest.raises(PermanentError, match="does not exist"):
        find(speech_model="none")
    with pytest.raises(PermanentError, match="does not exist"):
        find(model="none", speech_model="kokoro")


def test_without_programs_what_needs_none_is_served_and_the_rest_is_named(find, monkeypatch):
    monkeypatch.setenv("PATH", str(Path("nowhere").absolute()))
    found, unavailable = find(model="whisper", speech_model="kokoro")
    assert found == ["whisper"]
    assert "apt-get install espeak-ng" in unavailable["speech"]
    assert "brew install ffmpeg" in unavailable["compressed audio"]
    with pytest.raises(PermanentError, match="apt-get install espeak-ng"):
        find(model="kokoro")


def test_two_models_of_one_kind_are_refused(tmp_path, find):
    settings = AudioSettings(model=str(tmp_path / "whisper"), speech_model=str(tmp_path / "other"))
    entry = WorkerEntry(0, "studio", "audio", "", 1, 0.0, {})
    with pytest.raises(PermanentError, match="do the same"):
        audio_models.load(WorkerConfig(tmp_path, entry, settings, "", 1.0), None)
