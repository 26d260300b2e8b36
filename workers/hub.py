"""Finds a checkpoint: a folder on this machine, or a snapshot from the Hugging Face hub.

Does not read what is inside. Runs on the model thread; a download may take minutes.
"""

from __future__ import annotations

import logging
from pathlib import Path

from shared import model_folder
from shared.lifecycle import PermanentError

log = logging.getLogger(__name__)

# Files of a snapshot: weights, configuration, tokenizer, template.
_PATTERNS = [
    "*.json",
    "*.safetensors",
    "*.txt",
    "*.model",
    "*.tiktoken",
    "*.jinja",
    "*.npz",
    "*.py",
]


def locate(model: str, folder: Path, *, revision: str, offline: bool) -> Path:
    """Return the folder of a model given as a folder or as owner/name.

    Args:
        folder: base of a relative folder.
        revision: branch, tag or commit on the hub; empty for the default.

    Raises:
        PermanentError: it can't be found.
    """
    found = model_folder.find(model, folder)
    return found or model_folder.check(_download(model, revision, offline=offline))


def _download(name: str, revision: str, *, offline: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    log.info("looking for %s on the Hugging Face hub", name)
    try:
        found = snapshot_download(
            name, revision=revision or None, allow_patterns=_PATTERNS, local_files_only=offline
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as failure:
        reason = str(failure).strip().splitlines()[0]
        raise PermanentError(f"model {name}: no such folder, and the hub says: {reason}") from None
    return Path(found)
