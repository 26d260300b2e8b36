"""Splits the text of one completion into reasoning and answer.

Owns the tags of each model family. The result depends only on the whole text, not on where it was
cut. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from workers.text.toolcalls.reader.source import partial_length


@dataclass(frozen=True)
class Tags:
    """The texts before and after a reasoning block."""

    opening: str
    closing: str


# Sources: the chat templates of Qwen3, DeepSeek-R1 and most others; LongCat-Flash; Apertus-style
# markers; Muse; Gemma 4; Magistral and Ministral 3; Command R7B and Command A; Seed-OSS.
KNOWN_TAGS = (
    Tags("<think>", "</think>"),
    Tags("<longcat_think>", "</longcat_think>"),
    Tags("<|think:start|>", "<|think:end|>"),
    Tags("<|content_thinking|>", "<|end_message|>"),
    Tags("<|channel>thought", "<channel|>"),
    Tags("[THINK]", "[/THINK]"),
    Tags("<|START_THINKING|>", "<|END_THINKING|>"),
    Tags("<seed:think>", "</seed:think>"),
)


@dataclass(frozen=True)
class ReasoningPart:
    text: str


@dataclass(frozen=True)
class AnswerPart:
    text: str


Part = ReasoningPart | AnswerPart


class Splitter(Protocol):
    """Splits reasoning from the answer.

    Attributes:
        in_reasoning: whether the text so far ends inside a reasoning block.
        held: text that may be the beginning of the closing tag.
        answer_begun: whether the answer has begun, so that no reasoning will follow.
        in_call: whether the text so far ends inside a call, which no schema of the answer binds.
    """

    in_reasoning: bool
    answer_begun: bool
    in_call: bool
    held: str

    def feed(self, text: str) -> list[Part]:
        """Return the parts that the next piece of text adds."""

    def finish(self, *, cut: bool = False) -> list[Part]:
        """End the text: return the parts held back.

        Args:
            cut: a limit has ended the text: the beginning of a tag is not part of it.
        """


class NoSplitter:
    """Passes all text on as the answer: for models without reasoning."""

    in_reasoning = False
    answer_begun = True
    in_call = False
    held = ""

    def feed(self, text: str) -> list[Part]:
        return [AnswerPart(text)] if text else []

    def finish(self, *, cut: bool = False) -> list[Part]:  # noqa: ARG002 - the interface's
        return []


class TagSplitter:
    """Splits at a pair of tags.

    Reasoning can only come first: an opening tag counts only while the text before it is white
    space. White space around tags is dropped with them.

    Args:
        in_reasoning: whether the prompt has opened the block.
    """

    def __init__(self, tags: Tags, *, in_reasoning: bool) -> None:
        self._tags = tags
        self.in_reasoning = in_reasoning
        self.answer_begun = False
        self.in_call = False
        # A turn without reasoning keeps its leading white space.
        self._trims = in_reasoning
        self._text = ""
        self.held = ""

    def feed(self, text: str) -> list[Part]:
        self._text += text
        parts: list[Part] = []
        if not self.in_reasoning and not self.answer_begun:
            self._open()
        if self.in_reasoning:
            parts += self._read_reasoning()
        if self.answer_begun:
            parts += self._read_answer()
        return parts

    def finish(self, *, cut: bool = False) -> list[Part]:
        """End the text: return the parts held back. A block without an end stays reasoning."""
        text, held = self._text, self.held or self._text.lstrip()
        self._text = self.held = ""
        if cut and len(held) > 1 and not (self.answer_begun or held[0].isalnum()):
            # Either the beginning of a tag or empty.
            text = text[: len(text) - len(held)] if self.in_reasoning else ""
        if self.in_reasoning:
            text = text.lstrip() if self._trims else text
            return [ReasoningPart(text.rstrip())] if text.strip() else []
        return [AnswerPart(text)] if text else []

    def _open(self) -> None:
        """Decide whether the text begins with reasoning, once that is certain."""
        start = self._text.lstrip()
        if start.startswith(self._tags.opening):
            self.in_reasoning, self._trims = True, True
            self._text = start[len(self._tags.opening) :]
        elif start and not self._tags.opening.startswith(start):
            self.answer_begun, self._trims = True, False

    def _read_reasoning(self) -> list[Part]:
        index = self._text.find(self._tags.closing)
        if index >= 0:
            found, self._text = self._text[:index], self._text[index + len(self._tags.closing) :]
            self.in_reasoning, self.answer_begun, self.held = False, True, ""
            found = found.rstrip()
            if self._trims:
                found = found.lstrip()
            self._trims = True
            return [ReasoningPart(found)] if found else []
        partial = partial_length(self._text, (self._tags.closing,))
        self.held = self._text[len(self._text) - partial :]
        sure = self._text[: len(self._text) - partial].rstrip()
        found = sure.lstrip() if self._trims else sure
        if found:
            self._trims = False
            self._text = self._text[len(sure) :]
            return [ReasoningPart(found)]
        return []

    def _read_answer(self) -> list[Part]:
        text = self._text
        if self._trims:
            text = text.lstrip()
            self._trims = not text
        self._text = ""
        return [AnswerPart(text)] if text else []


def find_tags(vocabulary_tags: tuple[str, str] | None, template: str) -> Tags | None:
    """Return the tags around a model's reasoning, or None if it has none.

    Args:
        vocabulary_tags: the tags that mlx-lm infers from the tokenizer's vocabulary.
        template: the chat template in use; its tags may be several tokens long.
    """
    if vocabulary_tags is not None:
        return Tags(*vocabulary_tags)
    named = (tags for tags in KNOWN_TAGS if tags.opening in template or tags.closing in template)
    return next(named, None)


def opens_reasoning(prompt_tail: str, tags: Tags) -> bool:
    """Return whether a rendered prompt ends with an open reasoning block."""
    opened = prompt_tail.rfind(tags.opening)
    return opened >= 0 and not prompt_tail[opened + len(tags.opening) :].strip()


def leaves_reasoning_open(message: str, tags: Tags) -> bool:
    """Return whether a message to be continued ends inside a reasoning block."""
    return message.rfind(tags.opening) > message.rfind(tags.closing)


def visible_markers(tags: Tags | None, markers: Sequence[str]) -> frozenset[str]:
    """Return the delimiters to keep in the text even if control tokens spell them."""
    own = (tags.opening, tags.closing) if tags else ()
    return frozenset((*own, *markers))
