"""llm: a chat and a text completion, streamed, as its configuration file names them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = """\
- model_id: chat
  model_name: smol
  api_base: {url}/v1
  api_key_name: server
- model_id: text
  model_name: smol
  api_base: {url}/v1
  api_key_name: server
  completion: true
"""

with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "extra-openai-models.yaml").write_text(MODELS.format(url=os.environ["URL"]))
    (Path(folder) / "keys.json").write_text(f'{{"server": "{os.environ["KEY"]}"}}')
    for model in ("chat", "text"):
        command = [sys.executable, "-m", "llm", "-m", model, "-o", "max_tokens", "12", "Say hi."]
        done = subprocess.run(
            command,
            env=os.environ | {"LLM_USER_PATH": folder},
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0 and done.stdout.strip(), done.stderr
