"""Tables of the English rules, made of the texts of two TOML files, which describe them."""

import tomllib
from pathlib import Path

from antiphon.text.contexts import contexts, counted, either_case, forms, pairs, words

_TEXTS: dict[str, str] = {
    name: text
    for file in ("english_words.toml", "english_contexts.toml")
    for name, text in tomllib.loads(
        (Path(__file__).parent / file).read_text(encoding="utf-8")
    ).items()
}

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
MONTH_NAMES = {
    **{short: month for month in MONTHS for short in (month, month[:3])},
    **{short.upper(): month for month in MONTHS for short in (month, month[:3])},
    **{"Sept": "September", "SEPT": "September"},
}
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DAY_NAMES = {day[:3]: day for day in DAYS} | pairs(_TEXTS["day_names"])
SHORT_DAYS = pairs(_TEXTS["short_days"])
ORDINAL_ENDINGS = words(_TEXTS["ordinal_endings"])
WORDS_TOO = words(_TEXTS["words_too"])
TITLES = pairs(_TEXTS["titles"])
BARE_TITLES = words(_TEXTS["bare_titles"])
PLACES = pairs(_TEXTS["places"])
STREETS = frozenset((*PLACES, *PLACES.values())) - words(_TEXTS["not_streets"]) | words(
    _TEXTS["other_streets"]
)
CERTAIN_PLACES = words(_TEXTS["certain_places"])
SAINTS = words(_TEXTS["saints"])
ABBREVIATIONS = either_case(_TEXTS["abbreviations"]) | pairs(_TEXTS["cased_abbreviations"])
BARE_ABBREVIATIONS = words(_TEXTS["bare_abbreviations"])
BEFORE_NAMES = words(_TEXTS["before_names"])
BEFORE_NUMBERS = either_case(_TEXTS["before_numbers"]) | pairs(_TEXTS["cased_before_numbers"])
BARE_BEFORE_NUMBERS = words(_TEXTS["bare_before_numbers"])
NUMBERED_WITH_LETTERS = words(_TEXTS["numbered_with_letters"])
DOTTED = pairs(_TEXTS["dotted"])
PHRASES = pairs(_TEXTS["phrases"])
SLASHED = pairs(_TEXTS["slashed"])
TO_BETWEEN = words(_TEXTS["to_between"])
SLANG = pairs(_TEXTS["slang"])
SHORT_WORDS = {
    form: " ".join(name.upper())
    for name in words(_TEXTS["spelled_words"])
    for form in (name, name[0].upper() + name[1:])
}
SHORT_WORDS |= either_case(_TEXTS["short_words"]) | pairs(_TEXTS["cased_short_words"])
LETTER_WORDS = words(_TEXTS["letter_words"])
SHOUTED = words(_TEXTS["shouted"])
CAPITAL_WORDS = words(_TEXTS["capital_words"])
BOOKS = pairs(_TEXTS["books"])
BOOK_NAMES = frozenset(name.lower() for pair in BOOKS.items() for name in pair) | words(
    _TEXTS["whole_book_names"]
)
ENGLISH_FUNCTION_WORDS = words(_TEXTS["english_function_words"])
FOREIGN_FUNCTION_WORDS = words(_TEXTS["foreign_function_words"])

STARTERS = words(_TEXTS["starters"])
STATES = pairs(_TEXTS["states"])
PRESS_STATES = pairs(_TEXTS["press_states"])
COMPASS = pairs(_TEXTS["compass"])
PHONE_WORDS = words(_TEXTS["phone_words"])
VERSION_WORDS = words(_TEXTS["version_words"])
CARDINAL_NAMES = words(_TEXTS["cardinal_names"])
REGNAL_NAMES = words(_TEXTS["regnal_names"])
CENTURY_WORDS = words(_TEXTS["century_words"])
KEYS = pairs(_TEXTS["keys"])
KEY_NAMES = pairs(_TEXTS["key_names"])

CURRENCIES = forms(_TEXTS["currencies"])
CURRENCY_CODES = forms(_TEXTS["currency_codes"])
REAL = ("real", "reals", "centavo", "centavos")
DOLLARS = pairs(_TEXTS["dollars"])
SCALES = pairs(_TEXTS["scales"])
SCALE_WORDS = words(_TEXTS["scale_words"])
UNITS = counted(_TEXTS["units"])
NOT_AFTER_SPACE = words(_TEXTS["not_after_space"])
WITH_DOT = words(_TEXTS["with_dot"])
PER_WORDS = words(_TEXTS["per_words"])
PER_SHORT = pairs(_TEXTS["per_short"])
FRACTION_SIGNS = {
    sign: (int(above), int(below))
    for sign, (above, below) in forms(_TEXTS["fraction_signs"]).items()
}
SIGN_WORDS = pairs(_TEXTS["sign_words"])
SIGN_PAIRS = pairs(_TEXTS["sign_pairs"])
SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"

DOMAIN_ENDINGS = words(_TEXTS["domain_endings"])
SURE_DOMAIN_ENDINGS = words(_TEXTS["sure_domain_endings"])
FILE_ENDINGS = words(_TEXTS["file_endings"])
HIDDEN_FILES = words(_TEXTS["hidden_files"])
SPOKEN_CODES = pairs(_TEXTS["spoken_codes"])
CODE_SIGNS = pairs(_TEXTS["code_signs"]) | {",": "comma"}
ELEMENTS = words(_TEXTS["elements"])
NAMED_SIGNS = pairs(_TEXTS["named_signs"])
HTML_TAGS = words(_TEXTS["html_tags"])

_DAYS = frozenset(day.lower() for pair in DAY_NAMES.items() for day in pair)
_MONTHS = frozenset(name.lower() for name in MONTH_NAMES)
_DIGIT = words(_TEXTS["digit"])
_YEAR = words(_TEXTS["year"])
_MEASURED = words(_TEXTS["measured"])
_FOODS = words(_TEXTS["foods"])
_DETERMINER = words(_TEXTS["determiner"])
NOT_COUNTED = words(_TEXTS["not_counted"])
NUMBER_STYLES = contexts(
    _TEXTS["number_styles"],
    digit=_DIGIT,
    programs=VERSION_WORDS - {"go"},
    measured=_MEASURED,
    year=_YEAR,
    not_nouns=words(_TEXTS["not_nouns"]),
)
PAIR_STYLES = contexts(
    _TEXTS["pair_styles"], books=BOOK_NAMES, days=_DAYS, programs=VERSION_WORDS - {"v", "http"}
)
AMOUNTS = contexts(
    _TEXTS["amounts"], not_counted=NOT_COUNTED, determiner=_DETERMINER, measured=_MEASURED
)
LETTERS = contexts(_TEXTS["letters"])
SECONDS = contexts(_TEXTS["seconds"])
MILITARY = contexts(_TEXTS["military"])
DAY_READINGS = contexts(_TEXTS["day_readings"], days=_DAYS, months=_MONTHS)
SHORT_FORMS = contexts(
    _TEXTS["short_forms"], digit=_DIGIT, foods=_FOODS, roads=words(_TEXTS["roads"])
)

HOMOGRAPHS = contexts(_TEXTS["homographs"], both=words(_TEXTS["nouns_and_verbs"]))
NAME_PHONEMES = pairs(_TEXTS["name_phonemes"])
