"""Refuses the flags and environment names of shared/settings/refused.py, each with its sentence."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from shared.declaration import ConfigError
from shared.settings import refused


def refuse(name: str, value: str) -> None:
    """Refuse a name unless its value asks for what happens anyway; "" is a flag without a value.

    Raises:
        ConfigError: saying why.
    """
    sentence = refused.FLAGS.get(name) or refused.ENVIRONMENT.get(name)
    if sentence and value not in refused.INERT.get(name, ()):
        raise ConfigError(f"{name}: {sentence}")


def refuse_environment(environ: Mapping[str, str]) -> None:
    """Refuse environment names that are not served; an empty value counts as not set.

    Raises:
        ConfigError: naming the first of them.
    """
    for name in refused.ENVIRONMENT:
        if value := environ.get(name):
            refuse(name, value)


def add_refusals(parser: argparse.ArgumentParser) -> None:
    """Make a parser raise a ConfigError at a flag that is not served."""
    for flag in refused.FLAGS:
        parser.add_argument(flag, action=_Refuse, nargs="?", const="", help=argparse.SUPPRESS)


class _Refuse(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse's signature
        namespace: argparse.Namespace,  # noqa: ARG002
        values: Any,
        option_string: str | None = None,
    ) -> None:
        refuse(str(option_string), values)
