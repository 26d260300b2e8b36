"""Removes Markdown and HTML from a text, and keeps every word of it.

Owns which lines and marks are markup. Links are spoken as their text, code as it is written. Pure.
"""

from __future__ import annotations

import html
import re
from typing import Final

_FENCE: Final = re.compile(r"^[ \t]{0,3}(?:`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_RULE: Final = re.compile(r"^[ \t]{0,3}([-*_=])(?:[ \t]{0,3}\1){2,}+[ \t]*$", re.MULTILINE)
_TABLE_RULE: Final = re.compile(r"^[ \t]*+\|?[ \t]*+:?-{2,}[-:| \t]*+$", re.MULTILINE)
_TABLE_ROW: Final = re.compile(r"^[ \t]*+\|(.*)\|[ \t]*+$", re.MULTILINE)
_QUOTE: Final = re.compile(r"^[ \t]*+(?:>[ \t]*+)+", re.MULTILINE)
_HEADING: Final = re.compile(r"^[ \t]{0,3}#{1,6}[ \t]+(.*?)[ \t#]*+$", re.MULTILINE)
_BULLET: Final = re.compile(r"^[ \t]*+[-*+•‣◦▪●][ \t]+(?:\[[ xX]\][ \t]+)?", re.MULTILINE)
_ITEM: Final = re.compile(r"^([ \t]*+\d{1,3})[.)][ \t]+(?=\S)", re.MULTILINE)
_REFERENCE: Final = re.compile(r"^[ \t]{0,3}\[[^\]\n]{1,200}\]:[ \t]+\S+.*$", re.MULTILINE)
_FOOTNOTE: Final = re.compile(r"\[\^[^\]\n]{1,50}\]:?")
_LINK: Final = re.compile(
    r"!?\[([^\[\]\n]{0,500})\](?:\([^()\s]{0,2000}(?:[ ][^()\n]{0,200})?\)|\[[^\[\]\n]{0,200}\])"
)
_AUTOLINK: Final = re.compile(r"<((?:https?://|mailto:)?[^\s<>@]{1,200}[.@:/][^\s<>]{1,2000})>")
_COMMENT: Final = re.compile(r"<!--.{0,1000}?-->", re.DOTALL)
_TAG: Final = re.compile(
    r"</?(?:a|abbr|b|blockquote|br|center|cite|code|dd|del|details|div|dl|dt|em|font|h[1-6]|hr|i|img"
    r"|ins|kbd|li|mark|ol|p|pre|q|s|small|span|strike|strong|sub|summary|sup|table|tbody|td|th"
    r"|thead|tr|tt|u|ul)(?:\s[^<>]{0,1000})?/?>",
    re.IGNORECASE,
)
_BREAKS: Final = re.compile(r"</?(?:br|p|div|li|tr|h[1-6])(?:\s[^<>]{0,1000})?/?>", re.IGNORECASE)
_EMPHASIS: Final = re.compile(
    r"""(?<!\w)(?:\*{1,3}|_{1,3}|~~|`+)(?=[\w"'“‘(¿¡$€£#@+.<\\/-])"""
    r"""|(?<=[\w.!?,;:"'”’)%°€£$…।>/-])(?:\*{1,3}|_{1,3}|~~|`+)(?!\w)"""
)
_ESCAPE: Final = re.compile(r"\\([\\`*_{}\[\]()#+.!|~>-])")
# Escaped marks are private characters meanwhile, so that they are no markup.
_PRIVATE: Final = 0xE000
_ESCAPED: Final = {_PRIVATE + code: chr(code) for code in range(128)}
_MARKS: Final = ".,;:!?…。！？।"


def remove(text: str) -> str:
    """Return a text without markup; a line of markup ends with a stop."""
    text = _ESCAPE.sub(lambda match: chr(_PRIVATE + ord(match[1])), text)
    text = _COMMENT.sub(" ", text) if "-->" in text else text
    text = _TAG.sub("", _BREAKS.sub("\n", text)) if "<" in text else text
    text = _RULE.sub("", _FENCE.sub("", text))
    if "|" in text:
        text = _TABLE_ROW.sub(_join_cells, _TABLE_RULE.sub("", text))
    text = _HEADING.sub(_stop, _QUOTE.sub("", text))
    text = _ITEM.sub(r"\1, ", _BULLET.sub("", text))
    if "[" in text:
        text = _LINK.sub(r"\1", _FOOTNOTE.sub("", _REFERENCE.sub("", text)))
    text = _AUTOLINK.sub(r"\1", text) if "<" in text else text
    return html.unescape(_EMPHASIS.sub("", text)).translate(_ESCAPED)


def _stop(match: re.Match[str]) -> str:
    title = match[1].strip()
    return title if not title or title[-1] in _MARKS else f"{title}."


def _join_cells(match: re.Match[str]) -> str:
    cells = filter(None, (cell.strip() for cell in match[1].split("|")))
    return f"{', '.join(cells)}."
