"""Renders a request's prompt with the chat template and tokenizes it.

Runs on the render thread, never on the event loop: a template is a program written by the
checkpoint's author, and tokenizing a long prompt takes tens of milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb
from workers.text.answer.reasoning import find_tags
from workers.text.prompt.chat_template import REFUSALS, ChatTemplate, Ending
from workers.text.prompt.conversation import rendered_messages, rendered_tools
from workers.text.prompt.infill import Infill

# transformers renders inside jinja2's sandbox, but a template can still produce endless text: a
# longer prompt is refused before it is tokenized.
_MAX_PROMPT_CHARACTERS = 64 * 1024 * 1024

# Prompts that contain token ids.
_TOKEN_KINDS = ("tokens", "pieces", "infill")

# The templates of DeepSeek V3.1 and Granite name the variable `thinking`, not `enable_thinking`.
_THINKING = re.compile(r"\b(if|not|and|or) thinking\b")

# Arguments of the renderer, which template variables can't replace.
_RESERVED = {
    "add_generation_prompt",
    "chat_template",
    "continue_final_message",
    "conversation",
    "messages",
    "tokenize",
    "tools",
}


class Prompter:
    """Renders and tokenizes prompts of one model.

    Args:
        tokenizer: the tokenizer object of transformers.
        template: Jinja text used instead of the tokenizer's.
        template_kwargs: default template variables; a request's variables win.
        think_tags: the reasoning tags that mlx-lm infers from the vocabulary.
        effort: the reasoning effort of requests that do not set one.
        spm_infill: put the suffix before the prefix in infill prompts.

    Attributes:
        template: the Jinja text in use; empty if the model has none.
        tool_template: the same for conversations with tools.
        tags: the tags around the model's reasoning; None if it has none.
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
        self._template_kwargs = dict(template_kwargs)
        self._effort = effort
        named = f"{self.template}{self.tool_template}"
        self._sets_thinking = "enable_thinking" not in named and bool(_THINKING.search(named))
        texts = {self.template, self.tool_template}
        self._templates = {
            text: ChatTemplate(tokenizer, text, self._template_kwargs) for text in texts if text
        }
        self.infill = Infill(tokenizer, spm=spm_infill)

    def render(self, request: pb.GenerateRequest) -> str:
        """Return the prompt text of a request; a prompt given as tokens is decoded.

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
            ServiceError: the template refuses the conversation, or the model can't infill.
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
        """Return the token ids of a rendered conversation or of raw text."""
        # A template writes its own begin-of-sequence token.
        raw = request.WhichOneof("prompt") == "text"
        ids = self._encode_text(text, add_special=raw)
        return ids if ids or not raw else self._beginning()

    def count(self, text: str) -> int:
        """Return the number of tokens of a text, without added special tokens."""
        return len(self._encode_text(text, add_special=False))

    def encode_pieces(
        self, pieces: Sequence[pb.TokenizePiece], *, add_special: bool, parse_special: bool
    ) -> list[int]:
        """Return the ids of a mixture of texts and ids.

        Args:
            add_special: if the first piece is text, add the tokenizer's special tokens.
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
        # rendered templates.
        bos = self._tokenizer.bos_token
        begun = parse_special and bool(bos) and text.startswith(bos)
        options = {} if parse_special else {"split_special_tokens": True}
        added = add_special and not begun
        return list(self._tokenizer.encode(text, add_special_tokens=added, **options))

    def _beginning(self) -> list[int]:
        """Return one token for an empty text: a model can't continue from no token."""
        tokens = (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id)
        return [token for token in tokens if token is not None][:1]

    def namespace(self, request: pb.GenerateRequest) -> bytes:
        """Return the cache namespace: what two requests must share, besides tokens, to share KV.

        A digest of template, its variables, tools and tool choice, media bytes, and the session
        key of the client.
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
            variables = self._variables(request)
            keeps_reasoning = bool(variables.get("preserve_thinking"))
            text = self._templates[template].render(
                rendered_messages(chat, self.tags, keeps_reasoning=keeps_reasoning),
                rendered_tools(chat),
                chat.template_time_unix_s,
                variables,
                ending=_find_ending(chat),
            )
        except REFUSALS as failure:
            reason = (str(failure).strip().splitlines() or [type(failure).__name__])[0][:200]
            raise ServiceError(
                "invalid_request", f"The chat template refuses these messages: {reason}", "messages"
            ) from failure
        if len(text) > _MAX_PROMPT_CHARACTERS:
            raise ServiceError("invalid_request", "The rendered prompt is too long.", "messages")
        return text

    def _variables(self, request: pb.GenerateRequest) -> dict[str, Any]:
        """Return the template's variables; later sources win."""
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
        if reserved := sorted(_RESERVED & values.keys()):
            path = f"chat_template_kwargs.{reserved[0]}"
            raise ServiceError("invalid_request", f"{path} is reserved and can't be set.", path)
        return values


def _own_templates(tokenizer: Any) -> tuple[str, str]:
    """Return a checkpoint's templates for conversations without and with tools."""
    own = tokenizer.chat_template or ""
    named: dict[str, str] = own if isinstance(own, dict) else {"default": own}
    plain = named.get("default", "")
    return plain, named.get("tool_use", plain)


def _find_ending(chat: pb.ChatPrompt) -> Ending:
    if chat.add_generation_prompt:
        return Ending.ANSWER
    return Ending.CONTINUED if chat.messages[-1].role == "assistant" else Ending.NONE
