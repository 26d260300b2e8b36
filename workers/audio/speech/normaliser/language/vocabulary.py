"""The words of a language, read from its file: what signs, units, currencies and others are called.

Owns how units and currencies are written, which is the same in every language.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, Final

# Name of a unit in the files → how it is written.
_UNITS: Final[Mapping[str, str]] = {
    "millimetre": "mm",
    "centimetre": "cm",
    "metre": "m",
    "kilometre": "km",
    "micrometre": "µm μm",
    "nanometre": "nm",
    "square metre": "m² m2 sqm",
    "square kilometre": "km² km2",
    "square centimetre": "cm² cm2",
    "cubic metre": "m³ m3",
    "cubic centimetre": "cm³ cm3",
    "kilogram": "kg kgs",
    "gram": "g",
    "milligram": "mg",
    "microgram": "µg μg mcg",
    "tonne": "t",
    "litre": "l L",
    "millilitre": "ml mL",
    "centilitre": "cl cL",
    "hectare": "ha",
    "kilometre per hour": "km/h kmh kph",
    "metre per second": "m/s",
    "metre per second squared": "m/s² m/s2",
    "mile": "mi",
    "mile per hour": "mph",
    "foot": "ft",
    "yard": "yd yds",
    "pound": "lb lbs",
    "ounce": "oz",
    "degree Celsius": "°C ºC",
    "degree Fahrenheit": "°F ºF",
    "degree": "°",
    "hertz": "Hz",
    "kilohertz": "kHz",
    "megahertz": "MHz",
    "gigahertz": "GHz",
    "watt": "W",
    "kilowatt": "kW",
    "megawatt": "MW",
    "kilowatt hour": "kWh",
    "volt": "V",
    "milliampere": "mA",
    "milliampere hour": "mAh",
    "ohm": "Ω",
    "kilobyte": "KB kB",
    "megabyte": "MB",
    "gigabyte": "GB",
    "terabyte": "TB",
    "megabit per second": "Mbps Mb/s Mbit/s",
    "gigabit per second": "Gbps Gb/s Gbit/s",
    "megabyte per second": "MB/s",
    "decibel": "dB",
    "calorie": "cal",
    "kilocalorie": "kcal",
    "joule": "J",
    "kilojoule": "kJ",
    "pascal": "Pa",
    "hectopascal": "hPa",
    "pixel": "px",
    "millisecond": "ms",
    "microsecond": "µs μs",
    "second": "s sec secs",
    "minute": "min mins",
    "hour": "h hr hrs",
    "percent": "%",
    "per mille": "‰",
}
# Name of a currency in the files → its signs and codes.
_CURRENCIES: Final[Mapping[str, str]] = {
    "dollar": "$",
    "US dollar": "US$ USD",
    "Canadian dollar": "C$ CA$ CAD",
    "Australian dollar": "A$ AU$ AUD",
    "euro": "€ EUR",
    "pound": "£ GBP",
    "yen": "¥ JPY",
    "rupee": "₹ Rs Rs. INR",
    "yuan": "CN¥ RMB CNY",
    "won": "₩ KRW",
    "rouble": "₽ RUB",
    "real": "R$ BRL",
    "franc": "CHF Fr.",
    "bitcoin": "₿ BTC",
    "peso": "MX$ MXN",
    "lira": "₺ TRY",
    "shekel": "₪ ILS",
    "hryvnia": "₴ UAH",
    "dong": "₫ VND",
}


@dataclass(frozen=True)
class Noun:
    """A counted word.

    Attributes:
        gender: "m" or "f", where the language has one.
    """

    one: str
    many: str
    gender: str = "m"


@dataclass(frozen=True)
class Currency:
    major: Noun
    minor: Noun | None = None


@dataclass(frozen=True)
class Terms:
    """Words that stand between numbers or for a sign of their own.

    Attributes:
        powers: squared, cubed, and what precedes another exponent.
        conjunction: between the parts of an amount of money.
        link: before a fraction.
        of: between a count of whole millions and its noun.
    """

    minus: str
    to: str
    by: str
    per: str
    about: str
    half: str
    version: str
    powers: tuple[str, str, str]
    conjunction: str
    link: str
    number_sign: str
    hashtag: str
    at: str
    of: str = ""


@dataclass(frozen=True)
class Words:
    """The words of a language.

    Attributes:
        letters: sign → its word where text is spelled, as in addresses.
        signs: sign → its word elsewhere.
        operators: sign → its word between numbers, or before one.
        abbreviations: as written, with their stop → words.
        counted: abbreviations that are ones only before a number.
        scales: letter or word after an amount → noun of its power.
        months: name or abbreviation in lower case → number.
        units: as written after a number → noun.
        currencies: sign or code → currency.
        numbered: words, in lower case, before a Roman numeral that is read as a number.
        centuries: words after a Roman numeral that is read as an ordinal.
    """

    terms: Terms
    letters: Mapping[str, str]
    signs: Mapping[str, str]
    operators: Mapping[str, str]
    abbreviations: Mapping[str, str]
    counted: Mapping[str, str]
    scales: Mapping[str, Noun]
    months: Mapping[str, int]
    units: Mapping[str, Noun]
    currencies: Mapping[str, Currency]
    numbered: frozenset[str]
    centuries: frozenset[str]


def read_vocabulary(name: str, changes: str = "") -> Words:
    """Return the words in a language's file.

    Args:
        changes: name of a file with units and currencies that differ; empty for none.
    """
    table = _read_file(name)
    plain = ("letters", "signs", "operators", "abbreviations", "counted", "months")
    found = Words(
        **{part: table[part] for part in plain},
        terms=Terms(**table["terms"]),
        scales={sign: Noun(*words) for sign, words in table["scales"].items()},
        units=_read_units(table["units"]),
        currencies=_read_currencies(table["currencies"]),
        numbered=frozenset(table["numbered"]),
        centuries=frozenset(table["centuries"]),
    )
    if not changes:
        return found
    other = _read_file(changes)
    units = {**found.units, **_read_units(other["units"])}
    currencies = {**found.currencies, **_read_currencies(other["currencies"])}
    return replace(found, units=units, currencies=currencies)


def _read_file(name: str) -> dict[str, Any]:
    text = resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _read_units(table: Mapping[str, Sequence[str]]) -> dict[str, Noun]:
    """Return units as written; names that no other language has are written as they are."""
    return {
        sign: Noun(*words)
        for name, words in table.items()
        for sign in _UNITS.get(name, name).split(" ")
    }


def _read_currencies(table: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, Currency]:
    return {
        sign: Currency(Noun(*nouns["major"]), Noun(*nouns["minor"]) if "minor" in nouns else None)
        for name, nouns in table.items()
        for sign in _CURRENCIES.get(name, name).split(" ")
    }
