"""Where thinking ends and the answer begins.

Owns the tags of each family, and the split of one completion into thoughts and answer. What it
gives depends on the whole text alone, not on where it was cut. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from workers.text.toolcalls.reader.source import partial_length


@dataclass(frozen=True)
class Tags:
    """The texts around a block of thoughts."""

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
    """A piece of thinking."""

    text: str


@dataclass(frozen=True)
class AnswerPart:
    """A piece of everything else."""

    text: str


Part = ReasoningPart | AnswerPart


class Splitter(Protocol):
    """Tells thoughts from the answer.

    Attributes:
        thinking: whether the text so far ends inside a block of thoughts.
        held: text that may be the beginning of the closing tag.
        answering: whether the answer has begun, so that no thoughts will follow.
    """

    in_reasoning: bool
    answer_begun: bool
    held: str

    def feed(self, text: str) -> list[Part]:
        """Take the next piece of text."""

    def finish(self) -> list[Part]:
        """Return what was held back: no more text comes."""


class NoSplitter:
    """For models that don't think, and for clients that want the raw text."""

    in_reasoning = False
    answer_begun = True
    held = ""

    def feed(self, text: str) -> list[Part]:
        """Part of `Splitter`."""
        return [AnswerPart(text)] if text else []

    def finish(self) -> list[Part]:
        """Part of `Splitter`."""
        return []


class TagSplitter:
    """Splits at a pair of tags.

    Thoughts come first if at all: an opening tag counts only before anything but white space has
    been said. White space around tags is theirs and shown nowhere.

    Args:
        thinking: whether the prompt itself has opened the block.
    """

    def __init__(self, tags: Tags, *, in_reasoning: bool) -> None:
        self._tags = tags
        self.in_reasoning = in_reasoning
        self.answer_begun = False
        # A turn without thoughts keeps its leading white space.
        self._trims = in_reasoning
        self._text = ""
        self.held = ""

    def feed(self, text: str) -> list[Part]:
        """Part of `Splitter`."""
        self._text += text
        parts: list[Part] = []
        if not self.in_reasoning and not self.answer_begun:
            self._open()
        if self.in_reasoning:
            parts += self._read_reasoning()
        if self.answer_begun:
            parts += self._read_answer()
        return parts

    def finish(self) -> list[Part]:
        """Part of `Splitter`. Thoughts whose end never came stay thoughts."""
        text, self._text, self.held = self._text, "", ""
        if self.in_reasoning:
            text = text.lstrip() if self._trims else text
            return [ReasoningPart(text.rstrip())] if text.strip() else []
        return [AnswerPart(text)] if text else []

    def _open(self) -> None:
        """Decide whether the text begins with thoughts, once that is certain."""
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
    """Return the tags a model thinks between, or None when it does not.

    Args:
        vocabulary_tags: what mlx-lm infers from the tokenizer's vocabulary.
        template: the chat template in use; it may name tags of several tokens.
    """
    if vocabulary_tags is not None:
        return Tags(*vocabulary_tags)
    named = (tags for tags in KNOWN_TAGS if tags.opening in template or tags.closing in template)
    return next(named, None)


def opens_reasoning(prompt_tail: str, tags: Tags) -> bool:
    """Return whether a rendered prompt ends inside an open block of thoughts."""
    opened = prompt_tail.rfind(tags.opening)
    return opened >= 0 and not prompt_tail[opened + len(tags.opening) :].strip()


def leaves_reasoning_open(message: str, tags: Tags) -> bool:
    """Return whether a message that is to be continued ends inside a block of thoughts."""
    return message.rfind(tags.opening) > message.rfind(tags.closing)


def visible_markers(tags: Tags | None, markers: Sequence[str]) -> frozenset[str]:
    """Return the delimiter texts that control tokens may spell and must show up in the text."""
    own = (tags.opening, tags.closing) if tags else ()
    return frozenset((*own, *markers))
