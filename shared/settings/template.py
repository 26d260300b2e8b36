"""Chat templates and thoughts: what a conversation becomes. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from shared.declaration import setting


@dataclass(frozen=True)
class TemplateSettings:
    """Chat templates and thoughts."""

    reasoning_format: str = setting(
        "auto",
        "Where thoughts go: none leaves them in the answer, deepseek and auto put them in "
        "reasoning_content, deepseek-legacy does both.",
        flags=("--reasoning-format",),
        env=("LLAMA_ARG_THINK",),
        choices=("none", "deepseek", "deepseek-legacy", "auto"),
    )
    reasoning_budget: int = setting(
        -1,
        "Tokens a model may think when a request sets no budget; -1: without limit.",
        flags=("--reasoning-budget",),
        env=("LLAMA_ARG_THINK_BUDGET", "LLAMA_ARG_REASONING_BUDGET"),
        unit="tokens",
        least=-1,
    )
    reasoning_budget_message: str = setting(
        "",
        "Text put before the end of thoughts that a budget cuts off.",
        flags=("--reasoning-budget-message",),
        env=("LLAMA_ARG_THINK_BUDGET_MESSAGE",),
    )
    reasoning: str = setting(
        "auto",
        "Whether templates are told to let the model think: on, off, or as they do by themselves.",
        flags=("--reasoning",),
        env=("LLAMA_ARG_REASONING",),
        choices=("on", "off", "auto"),
    )
    reasoning_effort: str = setting(
        "",
        "How hard to think when a request does not say, for templates that read it.",
        flags=("--reasoning-effort",),
        env=("LLAMA_ARG_REASONING_EFFORT",),
    )
    reasoning_preserve: bool = setting(
        False,
        "Show templates the thoughts of earlier turns, as preserve_thinking does.",
        flags=("--reasoning-preserve",),
        env=("LLAMA_ARG_REASONING_PRESERVE",),
    )
    skip_chat_parsing: bool = setting(
        False,
        "Leave thoughts and tool calls in the text, as the model wrote them.",
        flags=("--skip-chat-parsing",),
        env=("LLAMA_ARG_SKIP_CHAT_PARSING",),
    )
    chat_template: str = setting(
        "",
        "Jinja text used instead of the model's own chat template.",
        flags=("--chat-template",),
        env=("LLAMA_ARG_CHAT_TEMPLATE",),
    )
    chat_template_file: str = setting(
        "",
        "Jinja file used instead of the model's own chat template.",
        flags=("--chat-template-file",),
        env=("LLAMA_ARG_CHAT_TEMPLATE_FILE",),
        is_path=True,
    )
    chat_template_kwargs: str = setting(
        "",
        "JSON object of template variables; a request's own win.",
        flags=("--chat-template-kwargs",),
        env=("LLAMA_ARG_CHAT_TEMPLATE_KWARGS",),
    )
