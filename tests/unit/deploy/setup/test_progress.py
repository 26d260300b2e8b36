"""Steps of a set-up, printed to a pipe and to a terminal, by programs that succeed or fail."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios

import pytest

from deploy.setup.progress import Progress, Step, track

# What an installer prints; the counter is pip's.
INSTALLER = r"""
import sys
print("Collecting mlx==1")
print("  Downloading mlx-1.0-cp311-linux.whl (5.0 MB)")
print("Progress 2048 of 4096")
print("\x1b[31mred\x1b[0m", file=sys.stderr, flush=True)
print(*range(int(sys.argv[1])), sep="\n")
sys.exit(int(sys.argv[2]))
"""


def command(lines=0, code=0):
    return [sys.executable, "-u", "-c", INSTALLER, str(lines), str(code)]


@pytest.fixture
def log(tmp_path):
    return tmp_path / "logs" / "set-up.log"


def without_times(text):
    return re.sub(r"\d+ s\b", "N s", text)


def install(progress, *arguments):
    with progress.step("Packages") as step:
        if step.run(command(*arguments)) != 0:
            raise RuntimeError("failed")


def test_a_pipe_gets_a_line_when_a_step_starts_and_when_it_ends(log):
    out = io.StringIO()
    progress = Progress(log, out)
    install(progress)
    with progress.step("ffmpeg") as step:
        step.warn("not installed")
    assert without_times(out.getvalue()) == (
        "==> Packages …\n==> Packages … N s\n==> ffmpeg …\n==> ffmpeg … N s: not installed\n"
    )


def test_the_log_has_the_full_output_without_counters_and_colours(log):
    install(Progress(log, io.StringIO()), 40)
    text = log.read_text()
    assert text.startswith("==> Packages\n$ ")
    assert "Downloading mlx-1.0-cp311-linux.whl" in text
    assert "\nred\n" in text
    assert text.endswith("\n38\n39\n")
    assert "Progress" not in text.partition("sys.argv[2]))")[2]


def test_a_failed_step_is_named_with_its_last_lines_and_the_log(log):
    out = io.StringIO()
    with pytest.raises(RuntimeError):
        install(Progress(log, out), 40, 3)
    start, failed, *tail, last = without_times(out.getvalue()).splitlines()
    assert (start, failed) == ("==> Packages …", "==> Packages … failed after N s")
    assert tail == [f"    {number}" for number in range(25, 40)]
    assert last == f"    The full output is in {log}"
    assert "RuntimeError: failed" in log.read_text()


def test_an_interrupted_step_is_one_line(log):
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt), Progress(log, out).step("Packages"):
        raise KeyboardInterrupt
    assert without_times(out.getvalue()).endswith("==> Packages … stopped after N s\n")


def test_a_later_set_up_starts_a_new_log(log):
    for title in ("old", "new"):
        progress = Progress(log, io.StringIO())
        with progress.step(title):
            pass
        with progress.step("second"):
            pass
    assert log.read_text() == "==> new\n==> second\n"


def test_a_set_up_without_steps_prints_nothing_and_makes_no_log(log):
    out = io.StringIO()
    Progress(log, out)
    assert out.getvalue() == ""
    assert not log.exists()


@pytest.fixture
def terminal():
    """A terminal of 60 columns: the file to write to, and a function that reads what was shown."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))

    def read():
        return os.read(ours, 65536).decode()

    with os.fdopen(theirs, "w", encoding="utf-8") as output:
        yield output, read
    os.close(ours)


def test_a_terminal_gets_one_line_per_step_updated_in_place(log, terminal):
    output, read = terminal
    with Progress(log, output).step("Packages") as step:
        step.report(1, 4)
        shown = ""
        while "25%" not in shown:
            shown += read()
    while "\n" not in shown:
        shown += read()
    assert "\r==> Packages … N s  [######------------------]  25%\x1b[K" in without_times(shown)
    assert without_times(shown).endswith("\r\x1b[K==> Packages … N s\r\n")
    assert shown.count("\n") == 1


def test_a_failure_on_a_terminal_leaves_no_torn_line(log, terminal):
    output, read = terminal
    with pytest.raises(RuntimeError):
        install(Progress(log, output), 1, 1)
    shown = ""
    while "The full output" not in shown:
        shown += read()
    *_, failed = re.split(r"\x1b\[K", without_times(shown))
    assert failed.startswith("==> Packages … failed after N s\r\n    Collecting mlx==1\r\n")


def test_a_running_step_shows_pips_download_and_fits_the_terminal():
    step = Step("Packages", io.BytesIO())
    for line in ("  Downloading mlx-1.0-cp311-linux.whl (5.0 MB)", "Progress 2048 of 4096"):
        step._read(line)
    line = "==> Packages … 0 s  [############------------]  50%  mlx 1.0 5.0 MB"
    assert step.render(100) == line
    assert step.render(40) == line[:40]
    step._read("Installing collected packages: mlx")
    assert step.render(100) == "==> Packages … 0 s  installing"


def test_a_text_that_the_output_can_not_encode_is_replaced(log):
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, "latin-1", write_through=True)
    with Progress(log, out).step("Packages"):
        pass
    assert raw.getvalue().startswith(b"==> Packages ?\n")


def test_track_reports_after_each_item():
    reports = []
    assert list(track("ab", lambda *report: reports.append(report))) == ["a", "b"]
    assert reports == [(1, 2), (2, 2)]
