"""Names, and words that decide how an adjacent number or Roman numeral is read."""

from collections.abc import Mapping

STARTERS = (
    frozenset(
        ("He", "She", "It", "The", "This", "That", "These", "Those", "They", "We", "I", "You", "In")
    )
    | frozenset(
        (
            "But",
            "And",
            "So",
            "Then",
            "There",
            "Here",
            "If",
            "When",
            "What",
            "Why",
            "How",
            "Who",
            "My",
        )
    )
    | frozenset(
        ("His", "Her", "Our", "Their", "Its", "A", "An", "On", "At", "For", "However", "Now", "As")
    )
    | frozenset(
        ("After", "Before", "While", "Since", "Because", "Please", "Let", "Is", "Are", "Was", "Do")
    )
    | frozenset(
        ("Did", "Can", "Could", "Will", "Would", "Some", "Many", "Most", "All", "No", "Yes", "Not")
    )
    | frozenset(
        ("Its", "Another", "Next", "Later", "Meanwhile", "Where", "Although", "With", "Your")
    )
)
"""Capitalized words that start a sentence, rather than a name, after an abbreviation."""


STATES: Mapping[str, str] = {
    **{"AL": "Alabama", "AK": "Alaska", "AZ": "Arizona", "AR": "Arkansas", "CA": "California"},
    **{"CO": "Colorado", "CT": "Connecticut", "DE": "Delaware", "FL": "Florida", "GA": "Georgia"},
    **{"HI": "Hawaii", "ID": "Idaho", "IL": "Illinois", "IN": "Indiana", "IA": "Iowa"},
    **{"KS": "Kansas", "KY": "Kentucky", "LA": "Louisiana", "ME": "Maine", "MD": "Maryland"},
    **{"MA": "Massachusetts", "MI": "Michigan", "MN": "Minnesota", "MS": "Mississippi"},
    **{"MO": "Missouri", "MT": "Montana", "NE": "Nebraska", "NV": "Nevada", "NJ": "New Jersey"},
    **{"NH": "New Hampshire", "NM": "New Mexico", "NY": "New York", "NC": "North Carolina"},
    **{"ND": "North Dakota", "OH": "Ohio", "OK": "Oklahoma", "OR": "Oregon"},
    **{"PA": "Pennsylvania", "RI": "Rhode Island", "SC": "South Carolina", "SD": "South Dakota"},
    **{"TN": "Tennessee", "TX": "Texas", "UT": "Utah", "VT": "Vermont", "VA": "Virginia"},
    **{"WA": "Washington", "WV": "West Virginia", "WI": "Wisconsin", "WY": "Wyoming"},
    "DC": "D C",
}


COMPASS: Mapping[str, str] = {
    **{"N": "North", "S": "South", "E": "East", "W": "West", "NE": "Northeast"},
    **{"NW": "Northwest", "SE": "Southeast", "SW": "Southwest"},
}


DIGIT_WORDS = (
    frozenset(
        ("pin", "zip", "code", "passcode", "password", "otp", "id", "account", "order", "ticket")
    )
    | frozenset(
        (
            "confirmation",
            "card",
            "serial",
            "case",
            "reference",
            "ref",
            "extension",
            "ext",
            "invoice",
        )
    )
    | frozenset(
        ("tracking", "combination", "license", "licence", "plate", "call", "dial", "text", "phone")
    )
    | frozenset(("number", "agent", "claim", "policy", "booking", "postcode", "isbn", "ssn", "key"))
)
"""Words after which the digits of a number are read one by one."""


PHONE_WORDS = frozenset(
    ("call", "called", "dial", "phone", "telephone", "tel", "text", "fax", "ring", "cell", "mobile")
) | frozenset(("reach", "contact", "whatsapp", "hotline", "landline"))


PAIR_WORDS = frozenset(
    ("room", "flight", "route", "highway", "interstate", "apartment", "suite", "bus", "train")
) | frozenset(("boeing", "airbus", "unit", "form", "channel", "error", "building", "model", "area"))


VERSION_WORDS = (
    frozenset(
        ("version", "v", "release", "python", "node", "ubuntu", "java", "ios", "android", "windows")
    )
    | frozenset(
        (
            "linux",
            "macos",
            "php",
            "go",
            "rust",
            "ruby",
            "django",
            "firefox",
            "chrome",
            "debian",
            "ver",
        )
    )
    | frozenset(("cuda", "pytorch", "kernel", "usb", "bluetooth", "http", "gpt", "llama", "build"))
)


YEAR_WORDS = (
    frozenset(
        ("in", "since", "until", "till", "by", "from", "year", "of", "during", "circa", "before")
    )
    | frozenset(
        (
            "after",
            "between",
            "early",
            "late",
            "mid",
            "to",
            "and",
            "spring",
            "summer",
            "autumn",
            "fall",
        )
    )
    | frozenset(
        ("winter", "through", "class", "copyright", "established", "founded", "born", "died")
    )
)


DATE_WORDS = frozenset(
    ("on", "by", "until", "since", "from", "before", "after", "dated", "due", "date", "till")
) | frozenset(("through", "starting", "ending", "expires", "born", "between", "deadline"))


DECADE_WORDS = frozenset(
    ("the", "his", "her", "their", "my", "your", "our", "early", "late", "mid", "in", "its", "and")
)


NOT_NOUNS = frozenset(
    ("was", "is", "has", "as", "this", "his", "its", "us", "always", "perhaps", "yes", "plus")
) | frozenset(
    ("does", "versus", "whereas", "thus", "across", "towards", "besides", "sees", "brings")
)
"""Singular words that end like plurals."""


CARDINAL_NAMES = (
    frozenset(
        ("chapter", "part", "act", "scene", "section", "volume", "book", "article", "war", "mark")
    )
    | frozenset(
        (
            "type",
            "level",
            "stage",
            "class",
            "grade",
            "bowl",
            "apollo",
            "gemini",
            "fantasy",
            "episode",
        )
    )
    | frozenset(
        (
            "round",
            "rocky",
            "phase",
            "title",
            "appendix",
            "figure",
            "table",
            "unit",
            "category",
            "tier",
        )
    )
    | frozenset(
        ("vol", "ch", "pt", "step", "rambo", "division", "schedule", "theorem", "factor", "wars")
    )
    | frozenset(
        ("saturn", "opus", "sonata", "symphony", "no", "group", "page", "civilization", "gta")
    )
)
"""Words after which a Roman numeral is a cardinal."""


REGNAL_NAMES = (
    frozenset(
        (
            "pope",
            "king",
            "queen",
            "henry",
            "louis",
            "edward",
            "george",
            "william",
            "charles",
            "james",
        )
    )
    | frozenset(
        (
            "richard",
            "elizabeth",
            "napoleon",
            "pius",
            "benedict",
            "leo",
            "paul",
            "ramses",
            "ramesses",
        )
    )
    | frozenset(
        ("frederick", "philip", "alexander", "nicholas", "peter", "catherine", "ivan", "umberto")
    )
    | frozenset(
        ("emmanuel", "gustav", "christian", "ferdinand", "francis", "clement", "urban", "innocent")
    )
    | frozenset(
        ("gregory", "john", "mary", "margaret", "margrethe", "felipe", "carlos", "wilhelm", "otto")
    )
    | frozenset(
        ("robert", "david", "thomas", "joseph", "albert", "xerxes", "darius", "ptolemy", "leopold")
    )
    | frozenset(("haakon", "olav", "harald", "constantine", "justinian", "cleopatra", "julius"))
)


CENTURY_WORDS = frozenset(("century", "centuries", "dynasty", "amendment", "olympiad", "olympics"))


KEYS: Mapping[str, str] = {
    **{"ctrl": "control", "control": "control", "alt": "alt", "cmd": "command", "shift": "shift"},
    **{"option": "option", "opt": "option", "command": "command", "win": "windows", "meta": "meta"},
    **{"super": "super", "fn": "function", "windows": "windows"},
}


KEY_NAMES: Mapping[str, str] = {
    **{"del": "delete", "esc": "escape", "ins": "insert", "pgup": "page up", "pgdn": "page down"},
    **{"ret": "return", "bksp": "backspace"},
}
