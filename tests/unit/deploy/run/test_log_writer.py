"""The log file of the launcher."""

from __future__ import annotations

import pytest

from deploy.run import log_writer
from shared.lifecycle import PermanentError


def test_a_large_log_file_is_renamed_and_few_old_ones_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(log_writer, "_FILE_BYTES", 100)
    path = tmp_path / "logs" / "server.log"
    output = log_writer.LogWriter(log_writer.RotatedFile(path), ["text"], pytest.fail)
    for number in range(60):
        output.write("text", f"line {number} é")
    output.close(5)
    names = sorted(file.name for file in path.parent.iterdir())
    assert names == ["server.log", *(f"server.log.{number}" for number in range(1, 5))]
    assert path.read_text().splitlines()[-1].endswith("text | line 59 é")
    assert all(file.stat().st_size <= 100 for file in path.parent.iterdir())


def test_a_log_file_that_can_not_be_opened_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PermanentError, match=r"--log-file .*server\.log"):
        log_writer.RotatedFile(tmp_path / "file" / "server.log")
