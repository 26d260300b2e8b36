"""The worker's settings for chat templates: which template, and its default variables.

Owns reading and validating those settings; rendering is prompter.py's. Reads one file, otherwise
pure.
"""

from __future__ import annotations

import json
from pathlib import Path

from shared.declaration import ConfigError
from shared.settings import TextSettings


def read_template(settings: TextSettings, folder: Path) -> tuple[str | None, dict[str, object]]:
    """Return the chat template of the settings, if any, and the default template variables.

    Raises:
        ConfigError: one can't be read.
    """
    kwargs = read_kwargs(settings)
    if settings.chat_template and settings.chat_template_file:
        raise ConfigError("--chat-template: can't be combined with --chat-template-file")
    if not settings.chat_template_file:
        return settings.chat_template or None, kwargs
    path = folder / Path(settings.chat_template_file).expanduser()
    try:
        return path.read_text(encoding="utf-8"), kwargs
    except (OSError, UnicodeDecodeError) as failure:
        raise ConfigError(f"--chat-template-file: {failure}") from None


def read_kwargs(settings: TextSettings) -> dict[str, object]:
    """Return the default template variables; those of --chat-template-kwargs win.

    Raises:
        ConfigError: --chat-template-kwargs is not a JSON object.
    """
    kwargs: dict[str, object] = {}
    if settings.reasoning != "auto":
        kwargs["enable_thinking"] = settings.reasoning == "on"
    if settings.reasoning_preserve:
        kwargs["preserve_thinking"] = True
    if settings.chat_template_kwargs:
        try:
            given = json.loads(settings.chat_template_kwargs)
        except ValueError as failure:
            raise ConfigError(f"--chat-template-kwargs: {failure}") from None
        if not isinstance(given, dict):
            raise ConfigError("--chat-template-kwargs: not a JSON object")
        kwargs |= given
    return kwargs
