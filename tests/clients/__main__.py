"""`make test-clients`: runs third-party clients, as they are published, against a whole server.

Installs them in environments of their own and prints a line per client: its version and whether it
got what it asked for. Exits with 1 if one did not. ARGS names some of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.checkpoint import starter_folder
from tests.clients.agent import SessionUsage, check_two_sessions, run_claude_code, run_codex
from tests.clients.environment import FOLDER, HERE, PYTHON, install, read_version, run_client
from tests.clients.fleet import KEY, serve_clients

_TIMEOUT_S: Final = 600


@dataclass(frozen=True)
class Case:
    """One client.

    Attributes:
        package: whose version is printed.
        work: runs it against a server's URL in a scratch folder; returns what is worth a note.
    """

    name: str
    package: str
    work: Callable[[str, Path], str]


def _python(name: str, package: str) -> Case:
    path = HERE / "python" / f"{name}.py"
    return Case(name, package, lambda url, _: _run([str(PYTHON), str(path)], url, HERE))


def _node(name: str, package: str) -> Case:
    def work(url: str, _: Path) -> str:
        # Node looks for packages beside the script.
        copied = FOLDER / "node" / f"{name}.mjs"
        shutil.copyfile(HERE / "node" / f"{name}.mjs", copied)
        return _run(["node", str(copied)], url, copied.parent)

    return Case(f"{name}.mjs", package, work)


def _run(command: list[str], url: str, folder: Path) -> str:
    environ = os.environ | {"URL": url, "KEY": KEY, "MODEL_FOLDER": str(starter_folder())}
    run_client(command, environ, folder, _TIMEOUT_S)
    return ""


def _agent(name: str, package: str, run: Callable[[str, Path], SessionUsage]) -> Case:
    return Case(name, package, lambda url, folder: check_two_sessions(run, url, folder / name))


CASES: Final = (
    _python("openai_sdk", "openai"),
    _node("openai_sdk", "openai"),
    _python("anthropic_sdk", "anthropic"),
    _node("anthropic_sdk", "@anthropic-ai/sdk"),
    _agent("claude_code", "@anthropic-ai/claude-code", run_claude_code),
    _agent("codex", "@openai/codex", run_codex),
    _node("vercel_ai", "ai"),
    _python("langchain_sdk", "langchain-core"),
    _node("langchain_sdk", "@langchain/core"),
    _python("pydantic_ai_sdk", "pydantic-ai-slim"),
    _python("openai_agents", "openai-agents"),
    _python("instructor_sdk", "instructor"),
    _python("litellm_sdk", "litellm"),
    _python("llm_cli", "llm"),
    _python("lm_eval_harness", "lm-eval"),
    _python("hub", "huggingface-hub"),
    _python("cohere_v1", "cohere"),
    _python("cohere_v2", "cohere"),
    _node("cohere_sdk", "cohere-ai"),
    _python("llama_index_tei", "llama-index-embeddings-text-embeddings-inference"),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients")
    parser.add_argument("names", nargs="*", metavar="NAME", help="clients; without any, all")
    names = parser.parse_args().names
    if unknown := set(names) - {case.name for case in CASES}:
        parser.error(f"no such client: {', '.join(sorted(unknown))}")
    install()
    failures = {}
    with (
        tempfile.TemporaryDirectory(prefix="c") as folder,
        serve_clients(Path(folder)) as server,
    ):
        for case in [case for case in CASES if not names or case.name in names]:
            failure = _try(case, server.url, Path(folder))
            if failure:
                failures[case.name] = failure
    for name, failure in failures.items():
        print(f"\n{name}:\n{failure}")
    return bool(failures)


def _try(case: Case, url: str, folder: Path) -> str:
    """Run a client and print its line; return why it failed, or nothing."""
    began_s = time.monotonic()
    note, failure = "", ""
    try:
        note = case.work(url, folder)
    except (AssertionError, OSError, subprocess.TimeoutExpired) as caught:
        failure = str(caught)
    result = "failed" if failure else "ok"
    took_s = time.monotonic() - began_s
    label = f"{case.package} {read_version(case.package)}"
    print(f"{case.name:20} {label:58} {result:6} {took_s:4.0f} s  {note}", flush=True)
    return failure


if __name__ == "__main__":
    sys.exit(main())
