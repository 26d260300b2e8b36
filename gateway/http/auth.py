"""API keys: reading them, and checking requests.

Owns the keys, as digests, and the two headers that carry one. Keys are never logged and never
compared with `==`. Pure after start.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from aiohttp import web

from shared.declaration import ConfigError
from shared.errors import ServiceError

log = logging.getLogger(__name__)

PUBLIC_PATHS: Final = frozenset({"/", "/health", "/v1/health"})
# The name of the key that a request carries.
PRINCIPAL: Final = web.RequestKey("principal", str)
_SCHEME: Final = "bearer"
_NAME_DIGITS: Final = 16


class Keys:
    """The accepted keys; without any, requests need none.

    Args:
        keys: from flags, environment and fleet file.
        files: files with one key per line.

    Raises:
        ConfigError: a file can't be read or has no key.
    """

    def __init__(self, keys: Iterable[str], files: Iterable[str | Path]) -> None:
        found = [*keys]
        for path in files:
            found += _read_keys(Path(path))
        self._digests = [_digest(key) for key in found]

    def check(self, path: str, headers: Mapping[str, str]) -> str:
        """Check the key of a request.

        Returns:
            a name of the key that says nothing of it, the same after a restart; "" for none.

        Raises:
            ServiceError: `missing_api_key` or `invalid_api_key`.
        """
        if not self._digests or path in PUBLIC_PATHS:
            return ""
        tokens = [_token(headers.get(name, "")) for name in ("Authorization", "X-Api-Key")]
        # Clients may send a key of another service in one of them.
        presented = [_digest(token) for token in tokens if token]
        if not presented:
            raise ServiceError("missing_api_key", "This server requires an API key.")
        # All keys are compared, so that timing reveals nothing.
        matches = [
            digest
            for token in presented
            for digest in self._digests
            if hmac.compare_digest(token, digest)
        ]
        if not matches:
            raise ServiceError("invalid_api_key", "The API key is not valid.")
        return hashlib.sha256(matches[0]).hexdigest()[:_NAME_DIGITS]


def _token(credentials: str) -> str:
    """Return the key of a header, in which the scheme may be in any case or missing."""
    scheme, space, token = credentials.partition(" ")
    return token.lstrip(" ") if space and scheme.lower() == _SCHEME else credentials


def _read_keys(path: Path) -> list[str]:
    try:
        # Lines end at \n alone and are not trimmed; open() would turn \r\n into \n.
        lines = path.read_bytes().decode().split("\n")
    except OSError as failure:
        raise ConfigError(f"--api-key-file: {path}: {failure.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--api-key-file: {path}: is not UTF-8") from None
    keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise ConfigError(f"--api-key-file: {path}: contains no key")
    if any(key.endswith("\r") for key in keys):
        log.warning("%s has Windows line ends, which become part of the keys", path)
    return keys


def _digest(key: str) -> bytes:
    # Header values arrive as str with surrogates for bytes that are not UTF-8.
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
