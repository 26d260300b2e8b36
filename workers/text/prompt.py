"""From a request's prompt to token ids: chat template and tokenizer.

Runs on the one render thread, never on the event loop: a template is a program of the
checkpoint's author, and a long prompt takes the tokenizer tens of milliseconds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from jinja2.exceptions import TemplateError
from transformers.utils import chat_template_utils

from shared.errors import ServiceError
from shared.pb import text_pb2 as pb

# transformers renders inside jinja2's sandbox, but a template can still loop: what it makes of a
# conversation is never longer than this many times the conversation itself, plus a page.
_MAX_PROMPT_CHARACTERS = 64 * 1024 * 1024

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
    """

    def __init__(
        self, tokenizer: Any, template: str | None, template_kwargs: Mapping[str, Any]
    ) -> None:
        self._tokenizer = tokenizer
        self._template = template or _own_template(tokenizer)
        self._template_kwargs = dict(template_kwargs)

    @property
    def template(self) -> str:
        """The Jinja text in use; empty when the model has none."""
        return str(self._template or "")

    def render(self, request: pb.GenerateRequest) -> str:
        """Return the prompt text of a request; of token ids, their text.

        Raises:
            ServiceError: the template refuses the conversation.
        """
        kind = request.WhichOneof("prompt")
        if kind == "chat":
            return self._render_chat(request)
        if kind == "text":
            return str(request.text)
        return str(self._tokenizer.decode(list(request.tokens.ids)))

    def encode(self, request: pb.GenerateRequest) -> list[int]:
        """Return the prompt's token ids.

        Raises:
            ServiceError: the template refuses the conversation.
        """
        kind = request.WhichOneof("prompt")
        if kind == "tokens":
            return list(request.tokens.ids)
        text = self.render(request)
        # A template writes its own begin-of-sequence token; raw text gets the tokenizer's, unless
        # it begins with it: many clients send what a template gave.
        begun = bool(self._tokenizer.bos_token) and text.startswith(self._tokenizer.bos_token)
        special = kind == "text" and not begun
        return list(self._tokenizer.encode(text, add_special_tokens=special))

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
        if not self._template:
            raise ServiceError(
                "invalid_request",
                "The model has no chat template; use /v1/completions or --chat-template-file.",
            )
        try:
            _set_clock(self._template, chat.template_time_unix_s)
            text = self._tokenizer.apply_chat_template(
                [_to_template(message) for message in chat.messages],
                tools=[json.loads(tool.json) for tool in _rendered_tools(chat)] or None,
                chat_template=self._template,
                tokenize=False,
                add_generation_prompt=chat.add_generation_prompt,
                continue_final_message=not chat.add_generation_prompt,
                **self._variables(request),
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
        if reasoning.effort and "reasoning_effort" not in values:
            values["reasoning_effort"] = reasoning.effort
        if chat.template_kwargs_json:
            values.update(json.loads(chat.template_kwargs_json))
        return values


def _own_template(tokenizer: Any) -> str | None:
    """Return the template of a checkpoint; of several, the one for plain conversations."""
    template = tokenizer.chat_template
    return template.get("default") if isinstance(template, dict) else template


def _set_clock(template: str, unix_s: int) -> None:
    """Let a template's `strftime_now` show the request's time: a resume renders the same prompt.

    transformers turns functions among the variables into text, so the clock is set on the
    compiled template, which it keeps for the next rendering. There is one render thread.
    """
    moment = datetime.fromtimestamp(unix_s, UTC).astimezone()
    compiled = chat_template_utils._compile_jinja_template(template)  # noqa: SLF001
    compiled.globals["strftime_now"] = moment.strftime


def _rendered_tools(chat: pb.ChatPrompt) -> Iterable[pb.Tool]:
    """Return the tools a template gets to see."""
    mode = chat.tool_choice.mode
    if mode == pb.ToolChoice.MODE_NONE:
        return ()
    if mode == pb.ToolChoice.MODE_NAMED:
        return [tool for tool in chat.tools if tool.name == chat.tool_choice.name]
    return chat.tools


def _to_template(message: pb.Message) -> dict[str, Any]:
    """Return a message as templates expect it: text as one string, arguments as a mapping."""
    entry: dict[str, Any] = {"role": message.role}
    entry["content"] = "".join(part.text for part in message.parts)
    if message.HasField("name"):
        entry["name"] = message.name
    if message.HasField("tool_call_id"):
        entry["tool_call_id"] = message.tool_call_id
    if message.HasField("reasoning"):
        entry["reasoning_content"] = message.reasoning
    if message.tool_calls:
        entry["tool_calls"] = [_to_call(call) for call in message.tool_calls]
    return entry


def _to_call(call: pb.ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": _to_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _to_arguments(text: str) -> Any:
    """Return arguments as a mapping; text that is no JSON object stays as it is."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return text
    return value if isinstance(value, dict) else text
