"""Tokenizers of a few hundred tokens, one per kind of decoder that checkpoints come with.

Small enough to be made in a test, with the decoders of the families they stand for. The ids of
single bytes are known, so that a test can write any byte string as tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

BOS, EOS, UNKNOWN = "<s>", "</s>", "<unk>"
SPECIAL = (UNKNOWN, BOS, EOS)


def alphabet() -> dict[int, str]:
    """Return the printable stand-in of each byte, as the tokenizers library itself has it."""
    shown = set(pre_tokenizers.ByteLevel.alphabet())
    # All but 68 bytes stand for themselves; those follow in order from U+0100.
    themselves = {ord(letter): letter for letter in shown if ord(letter) < 0x100}
    others = sorted(shown - set(themselves.values()))
    hidden = [byte for byte in range(256) if byte not in themselves]
    return {**themselves, **dict(zip(hidden, others, strict=True))}


def byte_level(
    pieces: Sequence[bytes] = (),
    added: Sequence[str] = (),
    *,
    adds_bos: bool = False,
    template: str | None = None,
) -> PreTrainedTokenizerFast:
    """Return GPT-2's kind (Llama 3, Qwen, SmolLM): every byte is a token, and so is each piece.

    Ids: the special tokens, then the 256 bytes in order, then the pieces, then `added`.
    """
    letters = alphabet()
    names = [letters[byte] for byte in range(256)]
    names += ["".join(letters[byte] for byte in piece) for piece in pieces]
    vocab = {name: index for index, name in enumerate([*SPECIAL, *names])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return wrap(tokenizer, added, adds_bos=adds_bos, template=template)


def sentence_piece(
    pieces: Sequence[str], added: Sequence[str] = (), *, strips: bool
) -> PreTrainedTokenizerFast:
    """Return Llama 2's kind (`strips`) or Gemma's: words with U+2581, bytes as `<0x…>`.

    Ids: the special tokens, then the 256 bytes in order, then the pieces, then `added`.
    """
    names = [*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    vocab = {name: index for index, name in enumerate(names)}
    model = models.BPE(vocab=vocab, merges=[], byte_fallback=True, unk_token=UNKNOWN)
    tokenizer = Tokenizer(model)
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if strips:
        parts.append(decoders.Strip(" ", 1, 0))
    tokenizer.decoder = decoders.Sequence(parts)
    return wrap(tokenizer, added)


def metaspace(pieces: Sequence[str], scheme: str) -> PreTrainedTokenizerFast:
    """Return T5's kind: words with U+2581 and no bytes."""
    names = [(name, 0.0) for name in [*SPECIAL, *pieces]]
    tokenizer = Tokenizer(models.Unigram(names, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    return wrap(tokenizer)


def wrap(
    tokenizer: Tokenizer,
    added: Sequence[str] = (),
    *,
    adds_bos: bool = False,
    template: str | None = None,
) -> PreTrainedTokenizerFast:
    """Return a tokenizer as transformers hands it to the worker."""
    marks = [AddedToken(mark, special=True, normalized=False) for mark in SPECIAL]
    tokenizer.add_special_tokens(marks)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in added])
    if adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{BOS} $A", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
        )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = template
    return wrapped


def to_ids(data: bytes) -> list[int]:
    """Return the byte tokens of a byte string; both kinds with bytes number them alike."""
    return [len(SPECIAL) + byte for byte in data]
