"""Token ids to bytes.

Owns the table of every token's bytes and which tokens are control tokens. Text is assembled
from bytes, so a character split over tokens is whole as soon as its last byte is there,
whatever the tokenizer's own decoder does with spaces. Immutable after construction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# Stands for "no byte": past Latin-1.
_NO_BYTE = "\uffff"
# SentencePiece writes a space as U+2581.
_SPACE_MARK = "\u2581"


class Vocabulary:
    """The bytes of each token of a tokenizer.

    Args:
        tokenizer: a transformers tokenizer.
        size: number of rows of the model's output; ids past the tokenizer's own are empty.

    Attributes:
        pieces: bytes per id; a control token's are its name.
        added_names: the ids of tokens by their names that the tokenizer looks for in a text
            before it splits the rest.
        control_names: those of them that are special tokens.
        control_ids: special tokens, which are not part of the text.
        strips_first_space: the decoder drops the space before the first word of a text.
    """

    def __init__(self, tokenizer: Any, size: int) -> None:
        parts = _decoder_parts(tokenizer)
        decoder = {str(part["type"]) for part in parts}
        added = tokenizer.added_tokens_decoder
        names = tokenizer.convert_ids_to_tokens(list(range(min(len(tokenizer), size))))
        to_bytes = _reader(tokenizer, decoder)
        pieces = [to_bytes(index, name) for index, name in enumerate(names)]
        for index, token in added.items():
            # Added words of SentencePiece models (runs of spaces, say) are spelled like the others.
            if index < len(pieces) and (token.special or "ByteLevel" in decoder):
                pieces[index] = str(token.content).encode()
        pieces.extend(b"" for _ in range(size - len(pieces)))
        self.pieces: Sequence[bytes] = pieces
        self.added_names = {str(token.content): i for i, token in added.items()}
        self.control_names = {str(token.content): i for i, token in added.items() if token.special}
        self.control_ids = frozenset(i for i, token in added.items() if token.special)
        self.strips_first_space = any(map(_strips, parts))

    def __len__(self) -> int:
        return len(self.pieces)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids, control tokens included, bad bytes as U+FFFD."""
        return b"".join(self.pieces[index] for index in ids).decode("utf-8", "replace")


def _decoder_parts(tokenizer: Any) -> list[dict[str, Any]]:
    """Return the parts of the decoder in order, e.g. [{"type": "ByteLevel", …}]."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or backend.decoder is None:
        return []
    state = json.loads(backend.decoder.__getstate__())
    return list(state.get("decoders", [state]))


def _strips(part: dict[str, Any]) -> bool:
    """Return whether a part of the decoder drops the space before the first word."""
    if part["type"] == "Metaspace":
        return bool(part.get("prepend_scheme") != "never")
    return part["type"] == "Strip" and bool(part.get("start", 0) > 0)


def _reader(tokenizer: Any, decoder: set[str]) -> Any:
    """Return the function (id, name) → bytes that fits the tokenizer's decoder."""
    if "ByteLevel" in decoder:
        return lambda _, name: _byte_level(name)
    if decoder & {"ByteFallback", "Metaspace", "Replace"}:
        return lambda _, name: _sentence_piece(name)
    # Decoders without a rule here (WordPiece, tiktoken in Python): use the tokenizer itself.
    return lambda index, _: tokenizer.decode([index]).encode()


def _byte_level(name: str | None) -> bytes:
    # Character by character, a large vocabulary took a second of every start.
    try:
        return (name or "").translate(_byte_alphabet()).encode("latin-1")
    except UnicodeEncodeError:
        return b"".join(map(_encode_character, name or ""))


def _encode_character(character: str) -> bytes:
    """Return the byte a character stands for, else its UTF-8 bytes."""
    byte = _byte_alphabet().get(ord(character), _NO_BYTE)
    return character.encode() if byte == _NO_BYTE else byte.encode("latin-1")


def _sentence_piece(name: str | None) -> bytes:
    match = _BYTE_TOKEN.fullmatch(name or "")
    if match:
        return bytes.fromhex(match[1])
    return (name or "").replace(_SPACE_MARK, " ").encode()


@lru_cache(maxsize=1)
def _byte_alphabet() -> dict[int, str]:
    """Return the byte, as a character below 256, of each of GPT-2's printable stand-ins.

    Other characters from 128 to 255 stand for no byte.

    Source: openai/gpt-2, src/encoder.py, bytes_to_unicode: printable Latin-1 bytes stand for
    themselves, the others for U+0100 onwards in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    table = {byte: _NO_BYTE for byte in hidden if byte >= 0x80}
    table.update({byte: chr(byte) for byte in printable})
    table.update({0x100 + index: chr(byte) for index, byte in enumerate(hidden)})
    return table
