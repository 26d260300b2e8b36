"""Templates and their variables as the settings of a worker give them."""

from __future__ import annotations

import dataclasses

import pytest

from shared.declaration import ConfigError
from shared.settings import TextSettings
from workers.text.prompt.template_setting import read_template


def read(folder, **settings):
    return read_template(dataclasses.replace(TextSettings(), **settings), folder)


def test_a_template_comes_as_text_or_from_a_file(tmp_path):
    (tmp_path / "t.jinja").write_text("of the file")
    assert read(tmp_path) == (None, {})
    assert read(tmp_path, chat_template="as text")[0] == "as text"
    assert read(tmp_path, chat_template_file="t.jinja")[0] == "of the file"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"chat_template": "x", "chat_template_file": "t"}, "--chat-template: can't be combined"),
        ({"chat_template_file": "nowhere"}, "--chat-template-file: "),
        ({"chat_template_kwargs": "{"}, "--chat-template-kwargs: "),
        ({"chat_template_kwargs": "[]"}, "--chat-template-kwargs: not a JSON object"),
    ],
)
def test_an_unreadable_setting_is_refused_by_its_flag(tmp_path, settings, says):
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, **settings)
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    ("settings", "kwargs"),
    [
        ({"reasoning": "on"}, {"enable_thinking": True}),
        ({"reasoning": "off"}, {"enable_thinking": False}),
        ({"reasoning": "auto"}, {}),
        ({"reasoning_preserve": True}, {"preserve_thinking": True}),
        (
            {"reasoning": "off", "chat_template_kwargs": '{"enable_thinking": true, "a": 1}'},
            {"enable_thinking": True, "a": 1},
        ),
    ],
)
def test_thinking_is_a_variable_of_templates(tmp_path, settings, kwargs):
    assert read(tmp_path, **settings)[1] == kwargs
