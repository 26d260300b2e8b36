"""What a chat template needs of a conversation, so that it refuses and drops nothing.

Owns the names of the restrictions: probing.py finds them, adaptation.py applies them. Pure data.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Literal

# Texts in the templates of Mistral, Gemma, Llama 2 and Qwen 3.5. Some shorten ids themselves, and
# then those of two calls may become equal.
_NINE_LETTERS = re.compile(r"id *\| *length *(!=|<) *9")


@dataclass(frozen=True)
class TemplateTraits:
    """Restrictions of a template that clients' messages may violate.

    The defaults describe a template that shows every conversation as it is.

    Attributes:
        empty_tools: without tools it needs an empty list.
        parts: content is a list of parts; as a string it is not shown.
        alternates: user and assistant turns alternate.
        opening: which first turn after the system's is preceded by an inserted user turn without
            text: none, an answer without calls, or any that is not the user's.
        needs_user: a user turn without text is inserted if there is none.
        system: where system turns are shown: anywhere, at the beginning, as the single first
            turn, as that if the conversation ends with a user turn, or nowhere. All others
            become user turns.
        empty: what becomes of assistant turns without text and calls: unchanged, their text is a
            space, or dropped.
        calls: how calls are shown: all of a turn, one per turn, or only as text.
        joins_calls: adjacent turns of the assistant with calls are one turn.
        argument_text: arguments are JSON text; otherwise a mapping.
        odd_arguments: how arguments that are no JSON object are shown: as they are, as the member
            of an object, or the call as text.
        call_text: what becomes of text beside a call: unchanged, a turn of its own in turns that
            were answered or in all, or the call is text too.
        open_calls: how calls without results are shown: unchanged, or as text.
        results: role of the results of calls that are text.
        stray_results: role of results that do not follow their call.
        joins_results: the user's text after a result is added to the result.
        short_ids: call ids have nine letters or digits.
        thinking: reasoning is never together with both text and a call.
    """

    empty_tools: bool = False
    parts: bool = False
    alternates: bool = False
    opening: Literal["none", "answer", "any"] = "none"
    needs_user: bool = False
    system: Literal["anywhere", "leading", "first", "final", "nowhere"] = "anywhere"
    empty: Literal["kept", "space", "dropped"] = "kept"
    calls: Literal["together", "single", "text"] = "together"
    joins_calls: bool = False
    argument_text: bool = False
    odd_arguments: Literal["kept", "member", "text"] = "kept"
    call_text: Literal["kept", "past", "apart", "text"] = "kept"
    open_calls: Literal["kept", "text"] = "kept"
    results: Literal["tool", "user"] = "tool"
    stray_results: Literal["tool", "user"] = "tool"
    joins_results: bool = False
    short_ids: bool = False
    thinking: bool = False

    @staticmethod
    def hint(template: str) -> TemplateTraits:
        """Return the traits that the text of a template states, from which the others are found."""
        alternates = "must alternate" in template
        first = alternates or "must be at the beginning" in template
        return TemplateTraits(
            alternates=alternates,
            system="first" if first else "anywhere",
            short_ids=bool(_NINE_LETTERS.search(template)),
        )

    def plain(self) -> TemplateTraits:
        """Return the traits of a template that shows nothing but alternating turns of text."""
        return dataclasses.replace(
            self,
            alternates=True,
            opening="any",
            needs_user=True,
            system=self.system if self.system in ("final", "nowhere") else "first",
            empty="dropped",
            calls="text",
            results="user",
            stray_results="user",
        )
