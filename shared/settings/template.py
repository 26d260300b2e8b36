"""Chat templates and reasoning. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from shared.declaration import Setting


@dataclass(frozen=True)
class TemplateSettings:
    """Chat templates and reasoning."""

    reasoning_format: Annotated[
        Literal["none", "deepseek", "deepseek-legacy", "auto"],
        Setting(
            "--reasoning-format LLAMA_ARG_THINK",
            "Where reasoning is put. none: in the answer; deepseek and auto: in "
            "reasoning_content; deepseek-legacy: in both.",
        ),
    ] = "auto"
    reasoning_budget: Annotated[
        int,
        Meta(ge=-1),
        Setting(
            "--reasoning-budget LLAMA_ARG_THINK_BUDGET LLAMA_ARG_REASONING_BUDGET",
            "Reasoning tokens of requests without a budget; -1: no limit.",
            unit="tokens",
        ),
    ] = -1
    reasoning_budget_message: Annotated[
        str,
        Setting(
            "--reasoning-budget-message LLAMA_ARG_THINK_BUDGET_MESSAGE",
            "Text inserted where a budget ends the reasoning.",
        ),
    ] = ""
    reasoning: Annotated[
        Literal["on", "off", "auto"],
        Setting(
            "--reasoning LLAMA_ARG_REASONING",
            "Turn reasoning on or off in the chat template; auto: the template's default.",
        ),
    ] = "auto"
    reasoning_effort: Annotated[
        str,
        Setting(
            "--reasoning-effort LLAMA_ARG_REASONING_EFFORT",
            "Default reasoning effort, for templates that read it.",
        ),
    ] = ""
    reasoning_preserve: Annotated[
        bool,
        Setting(
            "--reasoning-preserve LLAMA_ARG_REASONING_PRESERVE",
            "Pass the reasoning of earlier turns to the template, as preserve_thinking does.",
        ),
    ] = False
    skip_chat_parsing: Annotated[
        bool,
        Setting(
            "--skip-chat-parsing LLAMA_ARG_SKIP_CHAT_PARSING",
            "Leave reasoning and tool calls in the text, as the model generated them.",
        ),
    ] = False
    undeclared_calls: Annotated[
        Literal["pass", "drop"],
        Setting(
            "--undeclared-calls MLXCEL_UNDECLARED_CALLS",
            "Calls of functions that the request does not declare. pass: hand them on; drop: leave "
            "them out.",
        ),
    ] = "pass"
    chat_template: Annotated[
        str,
        Setting(
            "--chat-template LLAMA_ARG_CHAT_TEMPLATE",
            "Jinja text that replaces the model's chat template.",
        ),
    ] = ""
    chat_template_file: Annotated[
        str,
        Setting(
            "--chat-template-file LLAMA_ARG_CHAT_TEMPLATE_FILE",
            "Jinja file that replaces the model's chat template.",
            is_path=True,
        ),
    ] = ""
    chat_template_kwargs: Annotated[
        str,
        Setting(
            "--chat-template-kwargs LLAMA_ARG_CHAT_TEMPLATE_KWARGS",
            "JSON object of template variables; a request's own take precedence.",
        ),
    ] = ""
