"""Claude Code and Codex: two sessions each, of which the second finds the prompt in the cache.

Owns their homes, which are empty folders, and what they report of a session's tokens. Runs on the
caller's thread.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.clients.environment import NODE_MODULES, run_client
from tests.clients.fleet import KEY

_TIMEOUT_S: Final = 300
# Of the second session's prompt; the rest is what differs between sessions.
_LEAST_CACHED: Final = 0.9
_CODEX_CONFIG: Final = """\
model = "long"
model_provider = "mlxcel"
model_context_window = 131072

[model_providers.mlxcel]
name = "mlxcel"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "KEY"
"""


@dataclass(frozen=True)
class SessionUsage:
    """Tokens of the prompts of one session."""

    prompt_tokens: int
    cached_tokens: int


def run_claude_code(url: str, home: Path) -> SessionUsage:
    """Ask Claude Code one question in a new session."""
    models = ("ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL")
    environ = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        **dict.fromkeys(models, "long"),
    }
    output = _run(["claude", "-p", "Say hi.", "--output-format", "json"], environ, home)
    result = json.loads(output.splitlines()[-1])
    assert not result["is_error"], output
    usage = result["usage"]
    cached = usage["cache_read_input_tokens"]
    return SessionUsage(usage["input_tokens"] + cached, cached)


def run_codex(url: str, home: Path) -> SessionUsage:
    """Ask Codex one question in a new session."""
    folder = home / ".codex"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(_CODEX_CONFIG.format(url=url))
    command = ["codex", "exec", "--skip-git-repo-check", "--json", "Say hi."]
    output = _run(command, {"KEY": KEY}, home)
    usage = _find_usage(output)
    return SessionUsage(usage["input_tokens"], usage["cached_input_tokens"])


def _find_usage(output: str) -> dict[str, Any]:
    for line in output.splitlines():
        if line.startswith("{") and (event := json.loads(line))["type"] == "turn.completed":
            return dict(event["usage"])
    raise AssertionError(output)


def _run(command: Sequence[str], environ: Mapping[str, str], home: Path) -> str:
    """Return what an agent prints; its work folder is empty."""
    work = home / "work"
    work.mkdir(parents=True, exist_ok=True)
    program = NODE_MODULES / ".bin" / command[0]
    variables = {"PATH": os.environ["PATH"], "HOME": str(home), **environ}
    return run_client([program, *command[1:]], variables, work, _TIMEOUT_S)


def check_two_sessions(run: Callable[[str, Path], SessionUsage], url: str, home: Path) -> str:
    """Run two sessions; return how much of the second one's prompt was cached."""
    run(url, home)
    usage = run(url, home)
    assert usage.cached_tokens >= _LEAST_CACHED * usage.prompt_tokens, usage
    return f"second session: {usage.cached_tokens} of {usage.prompt_tokens} tokens cached"
