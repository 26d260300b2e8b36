"""The shape of a request's answer: reasoning, tool calls, a grammar.

Owns those fields of a request, and makes the two objects that implement them: the output, which
splits the answer into blocks, and the guide, which constrains sampling. Runs on the render thread.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from llguidance import LLMatcher

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from shared.settings import TextSettings
from shared.tool_choice import is_forced
from workers.text.answer import channel
from workers.text.answer.forcing import CallGrammars
from workers.text.answer.grammar import GrammarCompiler
from workers.text.answer.guide import UNLIMITED, Guide
from workers.text.answer.output import Output, Style
from workers.text.answer.reasoning import (
    Splitter,
    Tags,
    TagSplitter,
    leaves_reasoning_open,
    opens_reasoning,
    visible_markers,
)
from workers.text.model import TextModel
from workers.text.toolcalls.call_stream import CallPolicy, CallStream
from workers.text.toolcalls.detection import detect
from workers.text.toolcalls.formats import generic_json, harmony

log = logging.getLogger(__name__)

# A template opens a reasoning block in its last line.
_TAIL_TOKENS = 64


@dataclass(frozen=True)
class AnswerShape:
    """The shape of one answer.

    Attributes:
        must_call: whether an answer without a tool call is logged as a warning.
    """

    output: Output
    guide: Guide | None
    must_call: bool


class AnswerMaker:
    """Makes the answer shapes of one model.

    Args:
        tool_template: the chat template for conversations with tools.
        tags: the tags around the model's reasoning; None if it has none.

    Attributes:
        detected: the format in which the chat template writes calls; None if it has no tools.
        has_reasoning: whether the model reasons before it answers.
    """

    def __init__(
        self, model: TextModel, settings: TextSettings, tool_template: str, tags: Tags | None
    ) -> None:
        self._model = model
        self._settings = settings
        self.detected = detect(tool_template)
        self._format = self.detected or generic_json.FORMAT
        # These models reason on a separate channel, with and without tools.
        self._channels = self._format is harmony.FORMAT
        self._tags = channel.TAGS if self._channels else tags
        self.has_reasoning = self._tags is not None
        self._grammars = GrammarCompiler(model.tokenizer, model.vocab_tokens, [*model.end_ids])
        self._call_grammars = CallGrammars(
            self._grammars, self._format, model.vocabulary.control_names
        )

    def make(
        self, request: pb.GenerateRequest, prompt: Sequence[int], max_tokens: int
    ) -> AnswerShape:
        """Return the shape of a request's answer.

        Raises:
            ServiceError: the grammar can't be compiled, or the reasoning budget is too large.
        """
        reads_calls = self._reads_calls(request)
        splitter = self._splitter(request.chat, prompt, passes_calls=reads_calls)
        must_call = reads_calls and is_forced(request.chat.tool_choice)
        matcher = self._matcher(request, must_call=must_call)
        forced = must_call and matcher is not None and not request.HasField("grammar")
        calls = self._calls(request, forced=forced) if reads_calls else None
        budget = self._budget(request, max_tokens)
        vocabulary = self._model.vocabulary
        raw = request.reasoning.raw or not request.HasField("chat")
        plain = self._settings.skip_chat_parsing
        raw = raw or plain or self._settings.reasoning_format == "none"
        style = Style(
            visible=self._visible(marked=calls is not None or plain or self._channels),
            trims_space=vocabulary.strips_first_space and request.HasField("chat"),
            constrained=matcher is not None,
            raw=raw,
            duplicates_reasoning=not raw and self._settings.reasoning_format == "deepseek-legacy",
            with_ids=request.with_ids,
            guarded=self._guarded(calls=self._channels or (reads_calls and matcher is None)),
        )
        output = Output(vocabulary, request.stop.strings, style, splitter, calls)
        guide = None
        if matcher is not None or (splitter is not None and budget != UNLIMITED):
            ends = [*self._model.end_ids]
            guide = Guide(output.splitter, matcher, budget, self._close, self._opening_id(), ends)
        return AnswerShape(output, guide, must_call)

    def _splitter(
        self, chat: pb.ChatPrompt, prompt: Sequence[int], *, passes_calls: bool
    ) -> Splitter | None:
        if self._channels:
            return channel.ChannelSplitter(passes_calls=passes_calls)
        if self._tags is None:
            return None
        tail = self._model.vocabulary.decode(prompt[-_TAIL_TOKENS:])
        in_reasoning = opens_reasoning(tail, self._tags)
        last = chat.messages[-1] if chat.messages else None
        if last and last.role == "assistant" and not chat.add_generation_prompt:
            text = "".join(part.text for part in last.parts)
            in_reasoning = in_reasoning or leaves_reasoning_open(text, self._tags)
        return TagSplitter(self._tags, in_reasoning=in_reasoning)

    def _reads_calls(self, request: pb.GenerateRequest) -> bool:
        mode = request.chat.tool_choice.mode
        if not request.chat.tools or mode == pb.ToolChoice.MODE_NONE:
            return False
        if self._settings.skip_chat_parsing:
            return False
        has_schema = request.grammar.HasField("json_schema")
        return not has_schema or self._channels or self._call_grammars.can_offer

    def _calls(self, request: pb.GenerateRequest, *, forced: bool) -> CallStream:
        choice = request.chat.tool_choice
        named = choice.name if choice.mode == pb.ToolChoice.MODE_NAMED else None
        most = 1 if _calls_once(request.chat) else None
        policy = CallPolicy(
            named,
            most,
            self._settings.undeclared_calls == "pass",
            forced=forced,
            has_schema=request.grammar.HasField("json_schema") and not self._channels,
        )
        return CallStream(self._format, _schemas(request.chat), request.request_id, policy)

    def _matcher(self, request: pb.GenerateRequest, *, must_call: bool) -> LLMatcher | None:
        lone, tools = _calls_once(request.chat), _schemas(request.chat)
        if request.HasField("grammar"):
            matcher = self._grammars.compile(request.grammar)
            offers = request.grammar.HasField("json_schema") and not self._channels
            if not offers or not self._reads_calls(request):
                return matcher
            return self._call_grammars.offer(request.grammar, tools, lone=lone)
        if not must_call or not self._call_grammars.can_force:
            return None
        choice = request.chat.tool_choice
        named = choice.name if choice.mode == pb.ToolChoice.MODE_NAMED else None
        try:
            return self._call_grammars.force(tools, named, lone=lone)
        except ServiceError as refusal:
            # The engine can't follow this tokenizer: only the instruction in the prompt is left.
            log.warning("%s: tool_choice is not enforced: %s", request.request_id, refusal)
            return None

    def _budget(self, request: pb.GenerateRequest, max_tokens: int) -> int:
        """Return the reasoning tokens allowed; no effect on a model without reasoning."""
        if self._tags is None or not request.reasoning.HasField("budget_tokens"):
            return self._settings.reasoning_budget
        budget = request.reasoning.budget_tokens
        # The client is not at fault if the context has reduced its limit.
        limit = max(max_tokens, request.max_tokens)
        if budget > limit:
            raise ServiceError(
                "invalid_request",
                f"thinking_budget_tokens ({budget}) must be <= max_tokens ({limit})",
                "thinking_budget_tokens",
            )
        return int(budget)

    def _close(self, held: str) -> list[int]:
        """Return the ids that end a reasoning block, after the part of the tag already sampled."""
        assert self._tags is not None
        rest = self._tags.closing.removeprefix(held)
        message = "" if held else self._settings.reasoning_budget_message
        return list(self._model.tokenizer.encode(message + rest, add_special_tokens=False))

    def _opening_id(self) -> int | None:
        if self._tags is None:
            return None
        ids = self._model.tokenizer.encode(self._tags.opening, add_special_tokens=False)
        return int(ids[0]) if len(ids) == 1 else None

    def _guarded(self, *, calls: bool) -> tuple[str, ...]:
        """Return the markers that are tokens; with those of calls, unless a grammar spells them."""
        known = self._model.vocabulary.added_names
        markers = visible_markers(self._tags, self._format.markers if calls else ())
        return tuple(sorted(marker for marker in markers if marker in known))

    def _visible(self, *, marked: bool) -> frozenset[int]:
        """Return the control tokens to keep in the text; with the call delimiters if marked."""
        markers = visible_markers(self._tags, self._format.markers if marked else ())
        names = self._model.vocabulary.control_names
        return frozenset(token for name, token in names.items() if name in markers)


def _schemas(chat: pb.ChatPrompt) -> dict[str, dict[str, object]]:
    """Return the parameter schema of each declared function."""
    schemas = {}
    for tool in chat.tools:
        function = json.loads(tool.json).get("function") or {}
        schemas[tool.name] = function.get("parameters") or {}
    return schemas


def _calls_once(chat: pb.ChatPrompt) -> bool:
    """Return whether the answer may have only one call."""
    return chat.HasField("parallel_tool_calls") and not chat.parallel_tool_calls
