"""Names of languages as clients write them, and the codes that Whisper knows.

Sources: ISO 639-1, ISO 639-2 with both of its codes where it has two, BCP 47 for regions. Pure.
"""

from __future__ import annotations

from typing import Final

from mlx_audio.stt.models.whisper.tokenizer import TO_LANGUAGE_CODE

_THREE_LETTERS: Final = (
    "af afr am amh ar ara arb as asm az aze ba bak be bel bg bul bn ben bo bod tib br bre bs bos "
    "ca cat cs ces cze cy cym wel da dan de deu ger el ell gre en eng es spa et est eu eus baq "
    "fa fas per pes fi fin fo fao fr fra fre gl glg gu guj ha hau haw haw he heb hi hin hr hrv "
    "ht hat hu hun hy hye arm id ind is isl ice it ita ja jpn jw jav ka kat geo kk kaz km khm "
    "kn kan ko kor la lat lb ltz ln lin lo lao lt lit lv lav mg mlg mi mri mao mk mkd mac ml mal "
    "mn mon mr mar ms msa may zsm mt mlt my mya bur ne nep nl nld dut nn nno no nor nob oc oci "
    "pa pan pl pol ps pus pt por ro ron rum ru rus sa san sd snd si sin sk slk slo sl slv sn sna "
    "so som sq sqi alb sr srp su sun sv swe sw swa swh ta tam te tel tg tgk th tha tk tuk tl tgl "
    "fil tr tur tt tat uk ukr ur urd uz uzb vi vie yi yid yo yor yue yue zh zho chi cmn"
)
# Codes of ISO 639-1 that Whisper knows by another.
_OTHERS: Final = {"nb": "no", "jv": "jw", "iw": "he", "in": "id", "ji": "yi"}


def _read_table() -> dict[str, str]:
    table = dict(_OTHERS)
    code = ""
    for word in _THREE_LETTERS.split():
        if len(word) == 2 or word in ("haw", "yue"):
            code = word
        table[word] = code
    return table


_CODES: Final = _read_table()


def find_code(given: str) -> str:
    """Return the code that a name, a code or a code with a region means; else its first part."""
    name = given.strip().lower().replace("_", "-")
    # Clients of whisper.cpp send this for detection.
    if name in ("", "auto"):
        return ""
    if (code := TO_LANGUAGE_CODE.get(name)) is not None:
        return str(code)
    first = name.split("-")[0]
    return _CODES.get(first, first)
