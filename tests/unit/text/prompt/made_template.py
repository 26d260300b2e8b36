"""Chat templates made of the habits of real ones: what each refuses, drops or needs.

A template is the product of one habit per feature, so a hundred differ in every pair of features.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

_REFUSE = "{{ raise_exception('refused') }}"
# Where system turns are shown.
_SYSTEM = {
    "anywhere": "<s>{{ m.content }}</s>",
    "leading": "{% if ns.lead %}<s>{{ m.content }}</s>{% endif %}",
    "first": "{% if loop.first %}<s>{{ m.content }}</s>{% endif %}",
    "first or refused": "{% if loop.first %}<s>{{ m.content }}</s>{% else %}"
    + _REFUSE
    + "{% endif %}",
    "with a last user turn": "{% if loop.first and messages[-1].role == 'user' %}"
    "<s>{{ m.content }}</s>{% endif %}",
    "nowhere": "",
    "refused": _REFUSE,
}
# How calls are shown.
_ITEM = "<call>{{ c.function.name }}{{ c.function.arguments | tojson }}</call>"
_PAIRS = (
    "<call>{{ c.function.name }}{% for k, v in c.function.arguments.items() %}<{{ k }}>{{ v }}"
    "{% endfor %}</call>"
)
_EACH = "{% for c in m.tool_calls or [] %}"
_CALLS = {
    "json": _EACH + _ITEM + "{% endfor %}{{ m.content }}",
    "pairs": _EACH + _PAIRS + "{% endfor %}{{ m.content }}",
    "text": _EACH
    + "{{ '<call>' + c.function.name + c.function.arguments }}{% endfor %}{{ m.content }}",
    "without content": "{% if m.tool_calls %}" + _EACH + _ITEM + "{% endfor %}"
    "{% else %}{{ m.content }}{% endif %}",
    "one": "{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}" + _REFUSE + "{% endif %}"
    "{% set c = m.tool_calls[0] %}" + _ITEM + "{% endif %}{{ m.content }}",
    "dropped": "{{ m.content }}",
    "refused": "{% if m.tool_calls %}" + _REFUSE + "{% endif %}{{ m.content }}",
}
# How results are shown.
_RESULTS = {
    "shown": "<r>{{ m.content }}</r>",
    "after calls": "{% if not ns.called %}" + _REFUSE + "{% endif %}<r>{{ m.content }}</r>",
    "by name": "<r>{{ m.name + m.content }}</r>",
    "by id": "{% if m.tool_call_id | length != 9 %}"
    + _REFUSE
    + "{% endif %}<r>{{ m.content }}</r>",
    "dropped": "",
    "refused": _REFUSE,
}
# The order of turns.
_ORDER = {
    "any": "",
    "alternating": "{% if m.role == 'user' or (m.role == 'assistant' and not m.tool_calls) %}"
    "{% if (m.role == 'user') != ns.even %}" + _REFUSE + "{% endif %}"
    "{% set ns.even = not ns.even %}{% endif %}",
    "with a user": "{% if messages | selectattr('role', 'equalto', 'user') | list | length == 0 %}"
    + _REFUSE
    + "{% endif %}",
    "with answers": "{% if m.role == 'assistant' and not m.content and not m.tool_calls %}"
    + _REFUSE
    + "{% endif %}",
}


def make_templates() -> Iterator[tuple[str, str]]:
    """Yield names and texts: every pair of two features' habits occurs."""
    systems, calls, results = list(_SYSTEM), list(_CALLS), list(_RESULTS)
    for (i, system), (j, call) in itertools.product(enumerate(systems), enumerate(calls)):
        for shift in (0, 3):
            result = results[(i + j + shift) % len(results)]
            order = list(_ORDER)[(i + 2 * j + shift) % len(_ORDER)]
            yield f"{system}, {call}, {result}, {order}", _make(system, call, result, order)


def _make(system: str, call: str, result: str, order: str) -> str:
    return (
        "{% set ns = namespace(lead=true, called=false, even=true) %}{% for t in tools or [] %}"
        "{{ t.function.description + t.function.parameters.properties | tojson }}{% endfor %}"
        "{% for m in messages %}"
        + _ORDER[order]
        + "{% if m.role == 'system' %}"
        + _SYSTEM[system]
        + "{% else %}{% set ns.lead = false %}{% endif %}"
        "{% if m.role == 'user' %}<u>{{ m.content }}</u>{% elif m.role == 'assistant' %}<a>"
        + _CALLS[call]
        + "</a>{% set ns.called = m.tool_calls | default([]) | length > 0 %}"
        "{% elif m.role == 'tool' %}" + _RESULTS[result] + "{% endif %}{% endfor %}"
    )
