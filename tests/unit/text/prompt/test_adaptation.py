"""What is made of a conversation that a template would refuse or cut, and how that is found out."""

from __future__ import annotations

import itertools
import json

import pytest

from shared.pb import text_pb2 as pb
from tests.checkpoint import ROOT
from tests.unit.text import tiny_tokenizer
from tests.unit.text.prompt.history import list_histories, make_history, weather_tool
from workers.text.prompt.adaptation import adapt
from workers.text.prompt.call_text import write_call
from workers.text.prompt.chat_template import ChatTemplate
from workers.text.prompt.conversation import rendered_messages
from workers.text.prompt.probing import Probing
from workers.text.prompt.prompter import Prompter
from workers.text.prompt.traits import TemplateTraits
from workers.text.toolcalls.detection import FORMATS, find

TOKENIZER = tiny_tokenizer.byte_level()
FOLDER = ROOT / "tests" / "data" / "templates"


def found_traits(name, *, with_tools=True):
    template = ChatTemplate(TOKENIZER, (FOLDER / f"{name}.jinja").read_text("utf-8"), {})
    return template.traits[with_tools]


def adapted(code, **traits):
    """Return the turns of a history as role, content and arguments."""
    chat = pb.ChatPrompt(messages=make_history(code).messages)
    messages = rendered_messages(chat, None, keeps_reasoning=True)
    turns = adapt(messages, TemplateTraits(**traits), written, continued=False)
    return [
        (
            turn["role"],
            turn["content"],
            *(call["function"]["arguments"] for call in turn.get("tool_calls", ())),
        )
        for turn in turns
    ]


def written(name, arguments):
    return f"{name}{arguments}"


def word(index):
    return f"word{index:03}x"


# ----------------------------------------------------------------------------- traits


@pytest.mark.parametrize(
    ("name", "traits"),
    [
        ("qwen3", TemplateTraits()),
        ("glm", TemplateTraits(odd_arguments="member")),
        (
            "gpt_oss",
            TemplateTraits(system="anywhere", calls="single", stray_results="user", thinking=True),
        ),
        (
            "mistral_nemo",
            TemplateTraits(needs_user=True, system="final", call_text="apart", short_ids=True),
        ),
    ],
)
def test_the_traits_of_a_template_are_found(name, traits):
    assert found_traits(name) == traits


def test_a_template_that_shows_everything_has_no_traits():
    for with_tools in (False, True):
        shown = ChatTemplate(TOKENIZER, "{{ messages | tojson }}{{ tools }}", {})
        assert shown.traits[with_tools] == TemplateTraits()


@pytest.mark.parametrize("text", ["{{ raise_exception('never') }}", "{% for %}", "", "{{ tools }}"])
def test_a_template_that_refuses_or_shows_nothing_is_given_up_soon(text):
    class Counting:
        def __init__(self):
            self.count = 0

        def apply_chat_template(self, *args, **kwargs):
            self.count += 1
            return TOKENIZER.apply_chat_template(*args, **kwargs)

    counting = Counting()
    ChatTemplate(counting, text, {})
    assert counting.count < 20


def test_a_slow_template_is_given_up_after_two_renderings():
    seconds = iter(range(0, 1000, 5))
    codes = []

    def render(traits, messages, tools):
        codes.append(len(messages))
        return " ".join(message["content"] for message in messages)

    probing = Probing(render, with_tools=False, clock=lambda: next(seconds))
    assert probing.find(TemplateTraits(short_ids=True)) == TemplateTraits(short_ids=True)
    assert codes == [1, 1]


# -------------------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("code", "kept", "member", "text"),
    [
        ("b", '{"city": "W', {"arguments": '{"city": "W'}, 'get_weather{"city": "W'),
        ("l", '["W"]', {"arguments": '["W"]'}, 'get_weather["W"]'),
        ("q", '"W"', {"arguments": '"W"'}, 'get_weather"W"'),
        ("n", "null", {}, "get_weathernull"),
    ],
)
def test_arguments_that_are_no_object_are_shown_as_they_were_written(code, kept, member, text):
    def shown(value):
        return json.loads(
            json.dumps(adapted(f"u{code}r", odd_arguments=value)).replace("word001x", "W")
        )

    assert shown("kept")[1] == ["assistant", "", kept]
    assert shown("member")[1] == ["assistant", "", member]
    assert shown("text")[1] == ["assistant", text]


def test_arguments_are_text_where_a_template_needs_it():
    assert adapted("uc", argument_text=True)[1] == ("assistant", "", '{"city": "word001x"}')
    assert adapted("ui", argument_text=True)[1] == ("assistant", "", "{}")


@pytest.mark.parametrize(
    ("place", "roles"),
    [
        ("anywhere", "ss u a s u"),
        ("leading", "ss u a u u"),
        ("first", "s u a u u"),
        ("final", "s u a u u"),
        ("nowhere", "uu u a u u"),
    ],
)
def test_system_turns_are_moved_to_where_they_are_shown(place, roles):
    assert [turn[0][0] for turn in adapted("ssuasu", system=place)] == list(roles.replace(" ", ""))


def test_a_system_turn_shown_only_before_a_users_is_the_users_in_a_tool_loop():
    assert adapted("sucr", system="final")[0] == ("user", word(0))
    assert adapted("su", system="final")[0] == ("system", word(0))


def test_the_users_text_after_a_result_is_added_to_it():
    assert adapted("ucru", joins_results=True)[2:] == [("tool", f"{word(2)}\n\n{word(3)}")]


def test_results_of_calls_that_are_text_are_marked_in_the_users_role():
    assert adapted("ucr", calls="text", results="user") == [
        ("user", word(0)),
        ("assistant", f'get_weather{{"city": "{word(1)}"}}'),
        ("user", f"<tool_response>\n{word(2)}\n</tool_response>"),
    ]


def test_results_in_the_users_role_follow_those_of_the_same_calls():
    shown = adapted("udrxr", stray_results="user")
    assert [turn[0] for turn in shown] == ["user", "assistant", "tool", "tool", "user"]


def test_adjacent_turns_with_calls_are_one_where_the_text_of_the_second_is_not_shown():
    assert adapted("uctrr", joins_calls=True)[1][:2] == ("assistant", word(2))


def test_results_without_ids_belong_to_the_oldest_open_calls():
    chat = pb.ChatPrompt(messages=make_history("udoo").messages)
    for message in chat.messages:
        for call in message.tool_calls:
            call.id = ""
    _, turn, *results = rendered_messages(chat, None, keeps_reasoning=True)
    assert [call["id"] for call in turn["tool_calls"]] == [r["tool_call_id"] for r in results]


@pytest.mark.parametrize("code", ["a", "au", "cr"])
def test_a_user_turn_is_inserted_where_a_template_needs_it_first(code):
    assert adapted(code, opening="any")[0] == ("user", "")
    assert adapted(f"u{code}", opening="any")[0] == ("user", word(0))


def test_an_answer_that_is_continued_stays_the_last_turn_even_without_text():
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]
    traits = TemplateTraits(empty="dropped")
    assert len(adapt(messages, traits, written, continued=True)) == 2
    assert len(adapt(messages, traits, written, continued=False)) == 1


# A longer history begins with the same turns, so that cached prompts are found again.
@pytest.mark.parametrize(
    "traits",
    [
        {},
        {"system": "first", "alternates": True, "joins_results": True, "empty": "space"},
        {"system": "nowhere", "calls": "text", "results": "user", "alternates": True},
        {"calls": "single", "call_text": "apart", "odd_arguments": "member", "opening": "any"},
    ],
)
def test_a_longer_history_begins_with_the_same_turns(traits):
    codes = [code for code, _ in list_histories() if code[-1] in "urx" and code[0] != "a"]
    for code, more in itertools.product(codes, ("au", "cra", "ecr")):
        if code.count("c") == code.count("r"):
            shorter, longer = adapted(code, **traits), adapted(code + more, **traits)
            assert longer[: len(shorter)] == shorter


# ---------------------------------------------------------------------- calls as text


def spoken(call_format):
    """Return what a parser reads from a call written as text."""
    text = write_call(call_format, "get_weather", '{"city": "Bern", "days": 2}')
    schema = {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
    parser = call_format.parser({"get_weather": schema})
    return [
        piece for piece in [*parser.feed(text), *parser.finish(cut=False)] if hasattr(piece, "name")
    ]


FAMILIES = "hermes granite deepseek pythonic llama3 mistral mistral_nemo functionary32 generic_json"


@pytest.mark.parametrize("name", FAMILIES.split())
def test_a_call_written_as_text_is_one_that_the_family_reads(name):
    assert [piece.name for piece in spoken(find(name))] == ["get_weather"]


def test_every_family_writes_what_the_model_wrote():
    for call_format in FORMATS:
        assert '{"city": "Par' in write_call(call_format, "get_weather", '{"city": "Par')


def test_earlier_calls_are_shown_by_a_template_that_drops_them():
    template = (
        "{% if tools %}<tool_call>{% endif %}{% for m in messages %}"
        "[{{ m.role }}]{{ m.content }}{% endfor %}"
    )
    chat = pb.ChatPrompt(
        messages=make_history("ucr").messages, tools=[weather_tool()], add_generation_prompt=True
    )
    shown = Prompter(TOKENIZER, template, {}).render(pb.GenerateRequest(chat=chat))
    assert shown == (
        "<tool_call>[user]word000x[assistant]<tool_call>\n"
        '{"name": "get_weather", "arguments": {"city": "word001x"}}\n</tool_call>[tool]word002x'
    )
