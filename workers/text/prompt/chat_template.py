"""One chat template: renders conversations, and adapts those that it would refuse or cut.

Owns the rendering itself, the traits of the template with and without tools, and what is tried
after a refusal. A template is a program written by the checkpoint's author: transformers runs it
inside jinja2's sandbox. Runs on the render thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any

from jinja2.exceptions import TemplateError
from transformers.utils import chat_template_utils

from workers.text.prompt.adaptation import adapt
from workers.text.prompt.call_text import write_call
from workers.text.prompt.probing import Probing
from workers.text.prompt.tool_schema import complete_tools
from workers.text.prompt.traits import TemplateTraits
from workers.text.toolcalls.detection import detect
from workers.text.toolcalls.formats import generic_json

Message = dict[str, Any]

# What a template raises on a conversation it can't render.
REFUSALS = (
    TemplateError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


class Ending(Enum):
    """What the prompt ends with: the header of an answer, an answer to continue, or nothing."""

    ANSWER = auto()
    CONTINUED = auto()
    NONE = auto()


class ChatTemplate:
    """Renders conversations with one Jinja text.

    Args:
        tokenizer: the tokenizer object of transformers.
        text: the Jinja text.
        variables: template variables of the rendering that finds out the traits.
    """

    def __init__(self, tokenizer: Any, text: str, variables: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer
        self.text = text
        self._format = detect(text) or generic_json.FORMAT
        plain = self._probe(variables, with_tools=False)
        reads_tools = "tools" in text
        # By whether tools are given.
        self.traits = {
            False: plain,
            True: self._probe(variables, with_tools=True) if reads_tools else plain,
        }

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message],
        unix_s: int,
        variables: Mapping[str, Any],
        *,
        ending: Ending,
    ) -> str:
        """Return the prompt of a conversation.

        Args:
            unix_s: the time that the template sees.

        Raises:
            One of `REFUSALS`: the template can't render it in any form.
        """
        self._set_clock(unix_s)
        traits = self.traits[bool(tools)]
        try:
            return self._render_as(traits, messages, tools, variables, ending=ending)
        except REFUSALS:
            whole = complete_tools(tools)
            for other in (traits, traits.plain()) if tools else (traits.plain(),):
                with contextlib.suppress(*REFUSALS):
                    return self._render_as(other, messages, whole, variables, ending=ending)
            raise

    def _render_as(
        self,
        traits: TemplateTraits,
        messages: Sequence[Message],
        tools: Sequence[Message],
        variables: Mapping[str, Any],
        *,
        ending: Ending,
    ) -> str:
        continued = ending is Ending.CONTINUED
        return str(
            self._tokenizer.apply_chat_template(
                adapt(messages, traits, self._write, continued=continued),
                tools=tools or ([] if traits.empty_tools else None),
                chat_template=self.text,
                tokenize=False,
                add_generation_prompt=ending is Ending.ANSWER,
                continue_final_message=continued,
                **variables,
            )
        )

    def _write(self, name: str, arguments: str) -> str:
        return write_call(self._format, name, arguments)

    def _probe(self, variables: Mapping[str, Any], *, with_tools: bool) -> TemplateTraits:
        def render(
            traits: TemplateTraits, messages: Sequence[Message], tools: Sequence[Message]
        ) -> str | None:
            try:
                self._set_clock(0)
                return self._render_as(traits, messages, tools, variables, ending=Ending.ANSWER)
            except REFUSALS:
                return None

        return Probing(render, with_tools=with_tools).find(TemplateTraits.hint(self.text))

    def _set_clock(self, unix_s: int) -> None:
        """Make the template's `strftime_now` return a time, so a resume renders the same.

        transformers converts functions among the variables to text, so the clock is set on the
        compiled template, which it caches for the next rendering. There is one render thread.
        """
        moment = datetime.fromtimestamp(unix_s, UTC).astimezone()
        compiled = chat_template_utils._compile_jinja_template(self.text)  # noqa: SLF001
        compiled.globals["strftime_now"] = moment.strftime
