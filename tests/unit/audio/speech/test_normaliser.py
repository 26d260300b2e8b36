"""Texts are written out as they are spoken: cases of tests/data/speech, and what holds for all."""

from __future__ import annotations

import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.errors import ServiceError
from workers.audio.speech.normaliser.normaliser import load_normaliser
from workers.audio.speech.phoneme import LANGUAGES

CASES = Path(__file__).parents[3] / "data" / "speech"
CODES = sorted(LANGUAGES.values())
PAUSES = set(".,;:!?…—。！？、，；：।")
KINDS = {
    *("number", "money", "unit", "range", "maths", "address", "emoji", "markdown", "time"),
    *("date", "decade", "ordinal", "fraction", "roman", "abbreviation", "phone"),
}


def write_out(code, text):
    normaliser = load_normaliser(code)
    return "".join(normaliser.write_out(block) for block in normaliser.prepare(text))


def read_cases(code):
    """Yield kind, input and expected words."""
    kind = ""
    for line in (CASES / f"{code}.txt").read_text("utf-8").splitlines():
        if "\t" in line:
            given, expected = (part.replace("\\n", "\n") for part in line.split("\t"))
            yield kind, given, expected
        else:
            kind = line.removeprefix("# ")


@pytest.mark.parametrize("code", CODES)
def test_every_case_of_a_language_is_written_out(code):
    cases = list(read_cases(code))
    assert len(cases) >= 200
    assert {kind for kind, _, _ in cases} >= KINDS
    wrong = {
        given: (said, expected)
        for _, given, expected in cases
        if (said := write_out(code, given)) != expected
    }
    assert not wrong


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It cost 5.3. Next", "It cost five point three. Next"),
        ("Dr. No saw 3.5 kg vs. 4.", "Doctor No saw three point five kilograms versus four."),
        ("At 5 p.m. He left at 6 p.m.", "At five p m. He left at six p m."),
        ("I paid $5 (or 5 €), i.e. all…", "I paid five dollars, or five euros, that is all..."),
        ("Buy\n- 2 kg rice\n\n## Then\nmix", "Buy\ntwo kilograms rice\nThen.\nmix"),
        ("**Note:** a*b", "Note: a times b"),
        ("Cafe\u0301\0au lait\x1b!", "Café au lait!"),
        ("☃ ▁▂▃ ♥♥♥ ---", "snowman, heart suit"),
    ],
)  # fmt: skip
def test_marks_that_end_nothing_are_gone_and_others_stay(text, words):
    said = write_out("en-us", text)
    assert [line for line in said.splitlines() if line] == words.splitlines()


# Every script that is spoken, and whatever else there is.
CHARACTERS = st.one_of(
    st.sampled_from("0123456789.,-–+/%$€£:;()[]{}<>*_#@&|\\^~=×÷²³½°º'\"`“’!? \n\tabcIVXLkmgsTh"),
    st.sampled_from("áñçüßœअआकिया०१५।🙂👍🏽🇩🇪❤️\u200d\ufe0f\u20e3→✓™©№§¿¡«»…—∑√∞π"),
    st.characters(categories=["P", "S", "N", "M", "Z", "Cc", "Cf", "Co"]),
)


@pytest.mark.parametrize("code", CODES)
@settings(max_examples=150, deadline=None)
@given(text=st.text(CHARACTERS, max_size=60))
def test_nothing_but_letters_and_pauses_reaches_the_phonemes(code, text):
    try:
        said = write_out(code, text)
    except ServiceError as failure:
        assert "script" in failure.message  # noqa: PT017 - other texts are written out
        return
    for character in said:
        is_letter = unicodedata.category(character)[0] in "LM"
        assert is_letter or character in PAUSES or character in "'- \n", repr(character)
        assert not character.isdigit()


@pytest.mark.parametrize(
    ("code", "text", "script"),
    [
        ("en-us", "こんにちは", "Hiragana"),
        ("en-us", "The word 日本 means Japan.", "Han"),
        ("es", "Привет", "Cyrillic"),
        ("hi", "مرحبا", "Arabic"),
        ("fr-fr", "สวัสดี", "Thai"),
        ("it", "ｶﾀｶﾅ", "Katakana"),
        ("en-gb", "γειά σου", "Greek"),
        ("pt-br", "שלום", "Hebrew"),
    ],
)
def test_a_text_in_a_script_that_is_not_spoken_is_refused_by_its_name(code, text, script):
    with pytest.raises(ServiceError, match=f"{script} script") as caught:
        write_out(code, text)
    assert (caught.value.code, caught.value.param) == ("invalid_request", "input")


@pytest.mark.parametrize("text", ["नमस्ते", "안녕", "Ａｂｃ", "𝐀𝐛𝐜", "ﬁn", "Łódź", "π", "α × β"])
@pytest.mark.parametrize("code", CODES)
def test_scripts_that_are_spoken_are_not_refused(code, text):
    assert write_out(code, text)


HOSTILE = (
    *("1", "1,", "1.", "1-", "1:", "1/", "+1 ", "(1", "1 000 ", "$1", "½", "²", "1990s", "10:00 "),
    *("a", "a.", "a@", "a-", "_a_", "*a", "`", "[", "[a](", "![", "<", "<a", "<!--", "|", "\n"),
    *(" ", "\t", "#", "# ", "- ", "> ", "^", "'", "' a", "\\", "&", "&amp;", "http://", "www."),
    *("I", "I ", "Dr. ", "🙂 ", "👍🏽\u200d", "\u0301", "का", "०", "((", ". . ", "--", "– "),
)  # fmt: skip


@pytest.mark.slow
def test_time_grows_with_the_text_alone():
    """No pattern backtracks: a text ten times as long takes about ten times as long."""
    normaliser = load_normaliser("es")
    # A text is prepared whole, and written out in blocks of this length.
    for step, size in ((normaliser.prepare, 20_000), (normaliser.write_out, 1200)):
        slow = {}
        for part in HOSTILE:
            texts = [part * (length // len(part)) for length in (size // 10, size)]
            short_s, long_s = (_measure(step, text) for text in texts)
            if long_s > 0.1 and long_s > 40 * short_s:
                slow[part] = short_s, long_s
        assert not slow


def _measure(step, text):
    began_s = time.process_time()
    step(text)
    return time.process_time() - began_s
