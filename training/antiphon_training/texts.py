"""Texts to be spoken: everyday sentences from a grammar, words from a lexicon, and free prose.

All are in spoken form: numbers are words, there are no abbreviations.
"""

import gzip
import json
import random
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from antiphon_training.prose import has_fitting_length, prose_sentences

NUM_HELD_OUT = 200
_SHARES = {"words": 0.1, "short": 0.05, "prose": 0.6}
_TRIES = 20
_SENTENCES = "patterns"
_SLOT = re.compile(r"\{(\w+)\}")
_ONES = (
    *(
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
    ),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_IRREGULAR = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth",
    "nine": "ninth", "twelve": "twelfth",
}  # fmt: skip
_LISTS = (
    "The words are {}, {} and {}.",
    "Please repeat: {}, {}, {}.",
    "She said {}, not {}, and certainly not {}.",
    "Is it {}, {} or {}?",
    "What do {}, {} and {} have in common?",
    "{}, {}, {}.",
)


def write_texts(folder: Path, num_texts: int, *, seed: int, prose: Path | None = None) -> None:
    """Write ``train.txt`` and ``held_out.txt``, a text per line; a seed gives the same files.

    Lists of words, and texts of a few words, are for training alone.

    Args:
        folder: folder to be written.
        num_texts: texts for training, all different, and different from those held out.
        seed: seed of the choice.
        prose: folder that `prose_sentences` reads; without it the grammar gives more.
    """
    draw = random.Random(seed)
    lists = dict.fromkeys(islice(word_lists(draw), round(_SHARES["words"] * num_texts)))
    lists |= dict.fromkeys(islice(short_texts(draw), round(_SHARES["short"] * num_texts)))
    sentences = list(dict.fromkeys(prose_sentences(prose))) if prose is not None else []
    draw.shuffle(sentences)
    texts = dict.fromkeys(sentences[: round(_SHARES["prose"] * num_texts)])
    wanted = num_texts + NUM_HELD_OUT - len(lists)
    for text in islice(grammar_sentences(draw), _TRIES * wanted):  # fills up what is missing
        if len(texts) == wanted:
            break
        texts.setdefault(text)
    order = list(texts)
    draw.shuffle(order)
    train = [*order[NUM_HELD_OUT:], *lists]
    draw.shuffle(train)
    folder.mkdir(parents=True, exist_ok=True)
    for file, some in (("held_out", order[:NUM_HELD_OUT]), ("train", train)):
        (folder / f"{file}.txt").write_text("\n".join(some) + "\n", encoding="utf-8")


def read_texts(folder: Path) -> tuple[list[str], list[str]]:
    """Return the texts for training, and those held out."""
    train, held_out = (
        (folder / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        for name in ("train", "held_out")
    )
    return train, held_out


def grammar_sentences(draw: random.Random) -> Iterator[str]:
    """Yield sentences of the grammar without end."""
    while True:
        text = draw.choice(_grammar()[_SENTENCES])
        while slot := _SLOT.search(text):
            text = text[: slot.start()] + _filler(slot[1], draw) + text[slot.end() :]
        text = re.sub(r"\ba (?=[aeiou])", "an ", text)
        first = re.search(r"[A-Za-z]", text)
        assert first
        text = text[: first.start()] + first[0].upper() + text[first.end() :]
        if has_fitting_length(text):
            yield text


def word_lists(draw: random.Random) -> Iterator[str]:
    """Yield lists of words of hibari's lexicon, each word once, so that all spellings occur."""
    words = list(_lexicon())
    draw.shuffle(words)
    for first in range(0, len(words) - 2, 3):
        text = draw.choice(_LISTS).format(*words[first : first + 3])
        yield text[0].upper() + text[1:]


def short_texts(draw: random.Random) -> Iterator[str]:
    """Yield one to four sentences of a word or two, without end.

    Without them, a model goes on after such texts with words of its own.
    """
    entries = _SLOT.sub("", " ".join(text for texts in _grammar().values() for text in texts))
    common = sorted({*re.findall(r"[A-Za-z]+(?:'[a-z]+)?", entries)})
    while True:
        sentences = []
        for _ in range(draw.choice((1, 1, 2, 3, 4))):
            words = " ".join(
                draw.choices(draw.choice((common, _lexicon())), k=draw.choice((1, 1, 2)))
            )
            sentences.append(f"{words[0].upper()}{words[1:]}{draw.choice('..!?')}")
        yield " ".join(sentences)


@cache
def _lexicon() -> tuple[str, ...]:
    spec = find_spec("hibari")
    assert spec
    assert spec.submodule_search_locations
    assets = Path(spec.submodule_search_locations[0]) / "assets"
    lexicon = json.loads(gzip.decompress((assets / "lexicon_us_gold.json.gz").read_bytes()))
    return tuple(word for word in lexicon if re.fullmatch(r"[a-z]{3,12}", word))


def number_words(number: int) -> str:
    """Return a number from 0 to 999,999 in words."""
    if number < 20:
        return _ONES[number]
    if number < 100:
        ten, one = divmod(number, 10)
        return _TENS[ten - 2] + (f" {_ONES[one]}" if one else "")
    unit, name = (100, "hundred") if number < 1000 else (1000, "thousand")
    high, low = divmod(number, unit)
    joint = " and " if unit == 100 else " "
    return f"{number_words(high)} {name}" + (joint + number_words(low) if low else "")


def ordinal_words(number: int) -> str:
    """Return "twenty first" for 21."""
    *before, last = number_words(number).split()
    last = _IRREGULAR.get(last, last.removesuffix("y") + "ie" * last.endswith("y") + "th")
    return " ".join((*before, last))


def year_words(year: int) -> str:
    """Return a year between 1100 and 2099 as it is spoken."""
    century, rest = divmod(year, 100)
    if century == 20 and rest < 10:
        return "two thousand" + (f" and {_ONES[rest]}" if rest else "")
    if not rest:
        return f"{number_words(century)} hundred"
    between = "oh " if rest < 10 else ""
    return f"{number_words(century)} {between}{number_words(rest)}"


def clock_words(minutes: int) -> str:
    """Return a time of day, in minutes after midnight, as it is spoken."""
    hour, minute = divmod(minutes, 60)
    this, following = (number_words((each - 1) % 12 + 1) for each in (hour, hour + 1))
    named = {0: f"{this} o'clock", 15: f"quarter past {this}", 30: f"half past {this}"}
    named |= {45: f"quarter to {following}"}
    between = "oh " if minute < 10 else ""
    return named.get(minute, f"{this} {between}{number_words(minute)}")


def _filler(name: str, draw: random.Random) -> str:
    match name:
        case "digit":
            return _ONES[draw.randrange(10)]
        case "number":
            return number_words(draw.randrange(10 ** draw.choice((1, 2, 2, 3, 3, 4, 6))))
        case "ordinal":
            return ordinal_words(draw.randrange(1, 32))
        case "year":
            return year_words(draw.randrange(1100, 2100))
        case "clock":
            return clock_words(
                5 * draw.randrange(288) if draw.random() < 0.7 else draw.randrange(1440)
            )
        case _:
            return draw.choice(_grammar()[name])


@cache
def _grammar() -> Mapping[str, tuple[str, ...]]:
    """Return the entries of each name, and the sentences."""
    content = tomllib.loads(Path(__file__).with_name("grammar.toml").read_text(encoding="utf-8"))
    entries = {
        name: tuple(word.replace("-", " ") for word in text.split())
        for name, text in content["words"].items()
    }
    for name, text in content["phrases"].items():
        entries[name] = tuple(" ".join(phrase.split()) for phrase in text.split(";"))
    return entries | {_SENTENCES: tuple(content["sentences"]["patterns"])}
