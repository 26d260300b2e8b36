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
class ReasoningText:
    """A piece of thinking."""

    text: str


@dataclass(frozen=True)
class AnswerText:
    """A piece of everything else."""

    text: str


Part = ReasoningText | AnswerText


class Splitter(Protocol):
    """Tells thoughts from the answer.

    Attributes:
        thinking: whether the text so far ends inside a block of thoughts.
        held: text that may be the beginning of the closing tag.
        answering: whether the answer has begun, so that no thoughts will follow.
    """

    thinking: bool
    answering: bool
    held: str

    def feed(self, text: str) -> list[Part]:
        """Take the next piece of text."""

    def finish(self) -> list[Part]:
        """Return what was held back: no more text comes."""


class NoSplitter:
    """For models that don't think, and for clients that want the raw text."""

    thinking = False
    answering = True
    held = ""

    def feed(self, text: str) -> list[Part]:
        """Part of `Splitter`."""
        return [AnswerText(text)] if text else []

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

    def __init__(self, tags: Tags, *, thinking: bool) -> None:
        self._tags = tags
        self.thinking = thinking
        self.answering = False
        # A turn without thoughts keeps its leading white space.
        self._trims = thinking
        self._text = ""
        self.held = ""

    def feed(self, text: str) -> list[Part]:
        """Part of `Splitter`."""
        self._text += text
        parts: list[Part] = []
        if not self.thinking and not self.answering:
            self._open()
        if self.thinking:
            parts += self._think()
        if self.answering:
            parts += self._answer()
        return parts

    def finish(self) -> list[Part]:
        """Part of `Splitter`. Thoughts whose end never came stay thoughts."""
        text, self._text, self.held = self._text, "", ""
        if self.thinking:
            text = text.lstrip() if self._trims else text
            return [ReasoningText(text.rstrip())] if text.strip() else []
        return [AnswerText(text)] if text else []

    def _open(self) -> None:
        """Decide whether the text begins with thoughts, once that is certain."""
        start = self._text.lstrip()
        if start.startswith(self._tags.opening):
            self.thinking, self._trims = True, True
            self._text = start[len(self._tags.opening) :]
        elif start and not self._tags.opening.startswith(start):
            self.answering, self._trims = True, False

    def _think(self) -> list[Part]:
        place = self._text.find(self._tags.closing)
        if place >= 0:
            thought, self._text = self._text[:place], self._text[place + len(self._tags.closing) :]
            self.thinking, self.answering, self.held = False, True, ""
            thought = thought.rstrip()
            if self._trims:
                thought = thought.lstrip()
            self._trims = True
            return [ReasoningText(thought)] if thought else []
        partial = partial_length(self._text, (self._tags.closing,))
        self.held = self._text[len(self._text) - partial :]
        sure = self._text[: len(self._text) - partial].rstrip()
        thought = sure.lstrip() if self._trims else sure
        if thought:
            self._trims = False
            self._text = self._text[len(sure) :]
            return [ReasoningText(thought)]
        return []

    def _answer(self) -> list[Part]:
        text = self._text
        if self._trims:
            text = text.lstrip()
            self._trims = not text
        self._text = ""
        return [AnswerText(text)] if text else []


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


def ends_thinking(prompt_tail: str, tags: Tags) -> bool:
    """Return whether a rendered prompt ends inside an open block of thoughts."""
    opened = prompt_tail.rfind(tags.opening)
    return opened >= 0 and not prompt_tail[opened + len(tags.opening) :].strip()


def leaves_thinking(message: str, tags: Tags) -> bool:
    """Return whether a message that is to be continued ends inside a block of thoughts."""
    return message.rfind(tags.opening) > message.rfind(tags.closing)


def visible_markers(tags: Tags | None, markers: Sequence[str]) -> frozenset[str]:
    """Return the delimiter texts that control tokens may spell and must show up in the text."""
    own = (tags.opening, tags.closing) if tags else ()
    return frozenset((*own, *markers))
