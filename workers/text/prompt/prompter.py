"""From a request's prompt to token ids: chat template and tokenizer.

Runs on the one render thread, never on the event loop: a template is a program of the
checkpoint's author, and a long prompt takes the tokenizer tens of milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from jinja2.exceptions import TemplateError
from transformers.utils import chat_template_utils

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from workers.text.answer.reasoning import find_tags
from workers.text.prompt.conversation import TemplateQuirks, rendered_messages, rendered_tools
from workers.text.prompt.infill import Infill

# transformers renders inside jinja2's sandbox, but a template can still repeat itself: a prompt
# longer than this is not tokenised.
_MAX_PROMPT_CHARACTERS = 64 * 1024 * 1024

# Prompts that are tokens to begin with, at least in part.
_TOKEN_KINDS = ("tokens", "pieces", "infill")

# How the templates of DeepSeek V3.1 and Granite look at what others call `enable_thinking`.
_THINKING = re.compile(r"\b(if|not|and|or) thinking\b")

# Arguments of the renderer itself.
_TAKEN = {
    "add_generation_prompt",
    "chat_template",
    "continue_final_message",
    "conversation",
    "messages",
    "tokenize",
    "tools",
}

# What a template raises that can't do with a conversation what it means to.
_REFUSALS = (
    TemplateError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


class Prompter:
    """Renders and tokenises prompts of one model.

    Args:
        tokenizer: transformers' own object.
        template: Jinja text used instead of the tokenizer's.
        template_kwargs: variables every rendering gets; a request's own win.
        think_tags: what mlx-lm infers from the vocabulary that the model thinks between.
        effort: how hard to think when a request does not say.
        spm_infill: fill gaps with the text after them in front.

    Attributes:
        template: the Jinja text in use; empty when the model has none.
        tool_template: likewise, for conversations with tools.
        tags: what the model thinks between; None when it does not think.
        infill: makes prompts out of gaps.
    """

    def __init__(
        self,
        tokenizer: Any,
        template: str | None,
        template_kwargs: Mapping[str, Any],
        think_tags: tuple[str, str] | None = None,
        *,
        effort: str = "",
        spm_infill: bool = False,
    ) -> None:
        self._tokenizer = tokenizer
        own, with_tools = _own_templates(tokenizer)
        self.template = template or own
        self.tool_template = template or with_tools
        self.tags = find_tags(think_tags, self.template)
        self._quirks = {
            text: TemplateQuirks.read(text) for text in (self.template, self.tool_template)
        }
        self._template_kwargs = dict(template_kwargs)
        self._effort = effort
        named = f"{self.template}{self.tool_template}"
        self._sets_thinking = "enable_thinking" not in named and bool(_THINKING.search(named))
        self.infill = Infill(tokenizer, spm=spm_infill)

    def render(self, request: pb.GenerateRequest) -> str:
        """Return the prompt text of a request; of one that is given as tokens, their text.

        Raises:
            ServiceError: the template refuses the conversation.
        """
        kind = request.WhichOneof("prompt")
        if kind == "chat":
            return self._render_chat(request)
        if kind in _TOKEN_KINDS:
            return str(self._tokenizer.decode(self.encode(request)))
        return str(request.text)

    def encode(self, request: pb.GenerateRequest) -> list[int]:
        """Return the prompt's token ids.

        Raises:
            ServiceError: the template refuses the conversation, or the model can't fill gaps.
        """
        kind = request.WhichOneof("prompt")
        if kind == "tokens":
            return list(request.tokens.ids)
        if kind == "pieces":
            pieces = request.pieces.pieces
            return self.encode_pieces(pieces, add_special=True, parse_special=True)
        if kind == "infill":
            return self.infill.encode(request.infill)
        return self.tokenize(request, self.render(request))

    def tokenize(self, request: pb.GenerateRequest, text: str) -> list[int]:
        """Return the token ids of what a conversation, or raw text, was rendered to."""
        # A template writes its own begin-of-sequence token.
        raw = request.WhichOneof("prompt") == "text"
        ids = self._encode_text(text, add_special=raw)
        return ids if ids or not raw else self._beginning()

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return len(self._encode_text(text, add_special=False))

    def encode_pieces(
        self, pieces: Sequence[pb.TokenizePiece], *, add_special: bool, parse_special: bool
    ) -> list[int]:
        """Return the ids of text and ids in turn.

        Args:
            add_special: put before the first piece, if it is text, what the tokenizer puts there.
            parse_special: read the names of control tokens in text as these tokens.
        """
        ids: list[int] = []
        for index, piece in enumerate(pieces):
            if piece.WhichOneof("piece") == "id":
                ids.append(piece.id)
                continue
            first = add_special and index == 0
            ids += self._encode_text(piece.text, add_special=first, parse_special=parse_special)
        return ids

    def _encode_text(
        self, text: str, *, add_special: bool, parse_special: bool = True
    ) -> list[int]:
        # Text that begins with the begin-of-sequence token gets no second one: many clients send
        # what a template gave.
        bos = self._tokenizer.bos_token
        begun = parse_special and bool(bos) and text.startswith(bos)
        options = {} if parse_special else {"split_special_tokens": True}
        added = add_special and not begun
        return list(self._tokenizer.encode(text, add_special_tokens=added, **options))

    def _beginning(self) -> list[int]:
        """Return what an empty text begins with: a model can't go on from no token at all."""
        tokens = (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id)
        return [token for token in tokens if token is not None][:1]

    def namespace(self, request: pb.GenerateRequest) -> bytes:
        """Return what two requests must share, besides tokens, to share keys and values.

        Template, its variables, tools and tool choice; media bytes; and the session that the
        client asks to be kept apart.
        """
        digest = hashlib.sha256(self.template.encode())
        chat = request.chat
        variables = {**self._template_kwargs, **json.loads(chat.template_kwargs_json or "{}")}
        digest.update(json.dumps(variables, sort_keys=True).encode())
        digest.update(chat.tool_choice.SerializeToString(deterministic=True))
        for tool in chat.tools:
            digest.update(tool.json.encode())
        for message in chat.messages:
            for part in message.parts:
                if part.HasField("media"):
                    digest.update(hashlib.sha256(part.media.data).digest())
        digest.update(request.cache.session_key.encode())
        return digest.digest()

    def _render_chat(self, request: pb.GenerateRequest) -> str:
        chat = request.chat
        forbidden = chat.tool_choice.mode == pb.ToolChoice.MODE_NONE
        template = self.tool_template if chat.tools and not forbidden else self.template
        if not template:
            raise ServiceError(
                "invalid_request",
                "The model has no chat template; use /v1/completions or --chat-template-file.",
            )
        try:
            _set_clock(template, chat.template_time_unix_s)
            variables = self._variables(request)
            keeps_reasoning = bool(variables.get("preserve_thinking"))
            quirks = self._quirks[template]
            text = self._tokenizer.apply_chat_template(
                rendered_messages(chat, self.tags, quirks, keeps_reasoning=keeps_reasoning),
                tools=rendered_tools(chat, quirks) or None,
                chat_template=template,
                tokenize=False,
                add_generation_prompt=chat.add_generation_prompt,
                continue_final_message=not chat.add_generation_prompt,
                **variables,
            )
        except _REFUSALS as why:
            reason = (str(why).strip().splitlines() or [type(why).__name__])[0][:200]
            raise ServiceError(
                "invalid_request", f"The chat template refuses these messages: {reason}", "messages"
            ) from why
        if len(text) > _MAX_PROMPT_CHARACTERS:
            raise ServiceError("invalid_request", "The rendered prompt is too long.", "messages")
        return str(text)

    def _variables(self, request: pb.GenerateRequest) -> dict[str, Any]:
        """Return the template's variables, weakest first."""
        chat, reasoning = request.chat, request.reasoning
        values = dict(self._template_kwargs)
        if reasoning.HasField("enabled"):
            values["enable_thinking"] = reasoning.enabled
        effort = reasoning.effort or self._effort
        if effort and "reasoning_effort" not in values:
            values["reasoning_effort"] = effort
        if chat.template_kwargs_json:
            values.update(json.loads(chat.template_kwargs_json))
        if self._sets_thinking and "enable_thinking" in values:
            values.setdefault("thinking", values["enable_thinking"])
        if taken := sorted(_TAKEN & values.keys()):
            path = f"chat_template_kwargs.{taken[0]}"
            raise ServiceError("invalid_request", f"{path} is not for templates to be told", path)
        return values


def _own_templates(tokenizer: Any) -> tuple[str, str]:
    """Return the templates of a checkpoint, for plain conversations and for those with tools."""
    own = tokenizer.chat_template or ""
    named = own if isinstance(own, dict) else {"default": own}
    plain = named.get("default", "")
    return plain, named.get("tool_use", plain)


def _set_clock(template: str, unix_s: int) -> None:
    """Let a template's `strftime_now` show the request's time: a resume renders the same prompt.

    transformers turns functions among the variables into text, so the clock is set on the
    compiled template, which it keeps for the next rendering. There is one render thread.
    """
    moment = datetime.fromtimestamp(unix_s, UTC).astimezone()
    compiled = chat_template_utils._compile_jinja_template(template)  # noqa: SLF001
    compiled.globals["strftime_now"] = moment.strftime
