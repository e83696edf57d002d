"""Abbreviations, names of days and months, and words that decide how a number is read."""

from collections.abc import Mapping

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
MONTH_NAMES: Mapping[str, str] = {
    **{month: month for month in MONTHS},
    **{month.upper(): month for month in MONTHS},
    **{month[:3]: month for month in MONTHS},
    **{month[:3].upper(): month for month in MONTHS},
    "Sept": "September",
    "SEPT": "September",
}
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DAY_NAMES: Mapping[str, str] = {
    **{day[:3]: day for day in DAYS},
    **{"Tues": "Tuesday", "Weds": "Wednesday", "Thur": "Thursday", "Thurs": "Thursday"},
}
WORDS_TOO = frozenset(("Mar", "May", "Sun", "Sat", "Wed", "Mon", "Jan", "Dec", "Jun"))
"""Short forms that are words or names too."""

TITLES: Mapping[str, str] = {
    **{"Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Mx": "Mix", "Prof": "Professor"},
    **{"Gen": "General", "Gov": "Governor", "Sen": "Senator", "Rep": "Representative"},
    **{"Capt": "Captain", "Lt": "Lieutenant", "Col": "Colonel", "Sgt": "Sergeant"},
    **{"Cmdr": "Commander", "Rev": "Reverend", "Hon": "Honorable", "Pres": "President"},
    **{"Supt": "Superintendent", "Cpl": "Corporal", "Maj": "Major", "Adm": "Admiral"},
    **{"Fr": "Father", "Msgr": "Monsignor", "Dr": "Doctor", "Mt": "Mount", "Ft": "Fort"},
    **{"Pvt": "Private", "Det": "Detective", "Insp": "Inspector", "Atty": "Attorney"},
    **{"Brig": "Brigadier", "Ens": "Ensign", "Messrs": "Messieurs", "Mme": "Madame"},
    **{"Mlle": "Mademoiselle", "Drs": "Doctors", "Profs": "Professors", "Sens": "Senators"},
    **{"Reps": "Representatives", "Sr": "Senior", "Br": "Brother", "Amb": "Ambassador"},
    **{"Sec": "Secretary", "Sgts": "Sergeants", "Cdr": "Commander", "Lieut": "Lieutenant"},
}
"""Titles before a name, with or without a dot; `BARE_TITLES` are those without one."""
BARE_TITLES = frozenset(("Mr", "Mrs", "Ms", "Dr", "Prof", "Sgt", "Capt", "Mt", "Lt", "Col", "Gov"))

PLACES: Mapping[str, str] = {
    **{"St": "Street", "Dr": "Drive", "Ave": "Avenue", "Av": "Avenue", "Blvd": "Boulevard"},
    **{"Rd": "Road", "Ln": "Lane", "Hwy": "Highway", "Pkwy": "Parkway", "Pl": "Place"},
    **{"Ct": "Court", "Sq": "Square", "Ter": "Terrace", "Cir": "Circle", "Expy": "Expressway"},
    **{"Rte": "Route", "Tpke": "Turnpike", "Fwy": "Freeway", "Cres": "Crescent", "Aly": "Alley"},
}
"""Abbreviations after a name."""
CERTAIN_PLACES = frozenset(("Ave", "Blvd", "Rd", "Hwy", "Pkwy", "Expy", "Rte", "Tpke", "Fwy"))
"""Abbreviations of places that have no other meaning."""
SAINTS = (
    frozenset(
        (
            "Louis",
            "Mary",
            "Peter",
            "Paul",
            "John",
            "Helens",
            "Francis",
            "George",
            "Andrew",
            "Andrews",
        )
    )
    | frozenset(
        (
            "Patrick",
            "Thomas",
            "James",
            "Joseph",
            "Michael",
            "Petersburg",
            "Lucia",
            "Kitts",
            "Nicholas",
        )
    )
    | frozenset(
        (
            "Augustine",
            "Lucie",
            "Bernard",
            "Martin",
            "Moritz",
            "Tropez",
            "Pancras",
            "Albans",
            "Charles",
        )
    )
    | frozenset(("Cloud", "Ives", "Anthony", "Mark", "Luke", "Matthew", "Anne", "Ann", "Clair"))
)

ABBREVIATIONS: Mapping[str, str] = {
    **{"Hosp": "Hospital", "Ctr": "Center", "Div": "Division", "mfg": "manufacturing"},
    **{"std": "standard", "resp": "respectively"},
    **{"approx": "approximately", "vs": "versus", "etc": "et cetera", "viz": "namely"},
    **{"Inc": "Incorporated", "Corp": "Corporation", "Ltd": "Limited", "Co": "Company"},
    **{"Bros": "Brothers", "Dept": "Department", "dept": "department", "Univ": "University"},
    **{"Assn": "Association", "Assoc": "Association", "assoc": "associate", "asst": "assistant"},
    **{"Asst": "Assistant", "Govt": "Government", "govt": "government", "Intl": "International"},
    **{"intl": "international", "Natl": "National", "natl": "national", "Mfg": "Manufacturing"},
    **{"Jr": "Junior", "Sr": "Senior", "Esq": "Esquire", "Bldg": "Building", "bldg": "building"},
    **{"Apt": "Apartment", "apt": "apartment", "Ste": "Suite", "Rm": "Room", "rm": "room"},
    **{"Fl": "Floor", "Flr": "Floor", "Cf": "Compare", "cf": "compare", "al": "al"},
    **{"incl": "including", "excl": "excluding", "misc": "miscellaneous", "avg": "average"},
    **{"Avg": "Average", "temp": "temperature", "Temp": "Temperature", "tel": "telephone"},
    **{"Tel": "Telephone", "attn": "attention", "Attn": "Attention", "max": "maximum"},
    **{"Max": "Max", "qty": "quantity", "Qty": "Quantity", "amt": "amount", "dist": "distance"},
    **{"ed": "edition", "eds": "editors", "hwy": "highway", "blvd": "boulevard", "ave": "avenue"},
    **{"Mgr": "Manager", "mgr": "manager", "mgmt": "management", "Mgmt": "Management"},
    **{"prob": "probably", "esp": "especially", "orig": "originally", "Approx": "Approximately"},
    **{
        "Vs": "Versus",
        "VS": "versus",
        "Etc": "Et cetera",
        "ca": "circa",
        "Min": "Minimum",
        "min": "minimum",
    },
    **{"acct": "account", "Acct": "Account", "appt": "appointment", "Appt": "Appointment"},
    **{"Rds": "Roads", "Sts": "Streets", "Aves": "Avenues", "Mts": "Mountains"},
    **{"Tech": "Tech", "pkg": "package", "yr": "year", "yrs": "years", "mo": "month"},
    **{"hr": "hour", "hrs": "hours", "sec": "second", "secs": "seconds", "mins": "minutes"},
    **{"lb": "pound", "lbs": "pounds", "oz": "ounces", "ft": "feet", "tbsp": "tablespoon"},
    **{"tsp": "teaspoon", "gal": "gallon", "qt": "quart", "Ala": "Alabama", "Ariz": "Arizona"},
    **{"Calif": "California", "Colo": "Colorado", "Conn": "Connecticut", "Fla": "Florida"},
    **{"Ill": "Illinois", "Mich": "Michigan", "Minn": "Minnesota", "Okla": "Oklahoma"},
    **{"Penn": "Pennsylvania", "Tenn": "Tennessee", "Wis": "Wisconsin", "Va": "Virginia"},
    **{"par": "paragraph", "para": "paragraph", "Ph": "P H", "wt": "weight", "ht": "height"},
}
"""Abbreviations with a dot."""
BARE_ABBREVIATIONS = frozenset(
    ("approx", "vs", "Dept", "dept", "govt", "Govt", "Intl", "Bldg", "bldg", "Apt", "Assn", "etc")
) | frozenset(
    ("VS", "Vs", "Ltd", "qty", "Qty", "Mgr", "mgr", "mgmt", "appt", "acct", "Mfg", "Attn")
)
"""Abbreviations with the same meaning without a dot."""
BEFORE_NAMES = frozenset(("vs", "Vs", "VS", "Cf", "cf", "Ph", "ca", "approx", "Approx", "Attn"))
"""Abbreviations that never end a sentence."""

BEFORE_NUMBERS: Mapping[str, str] = {
    **{"no": "number", "No": "Number", "NO": "number", "nos": "numbers", "Nos": "Numbers"},
    **{"fig": "figure", "Fig": "Figure", "figs": "figures", "Figs": "Figures", "p": "page"},
    **{"pp": "pages", "P": "Page", "Pp": "Pages", "pg": "page", "Pg": "Page", "pgs": "pages"},
    **{"vol": "volume", "Vol": "Volume", "vols": "volumes", "Vols": "Volumes", "ch": "chapter"},
    **{"Ch": "Chapter", "chs": "chapters", "Sec": "Section", "sec": "section", "sect": "section"},
    **{"Sect": "Section", "Art": "Article", "art": "article", "par": "paragraph", "eq": "equation"},
    **{"Eq": "Equation", "Eqs": "Equations", "eqs": "equations", "ext": "extension", "l": "line"},
    **{"Ext": "Extension", "para": "paragraph", "Para": "Paragraph", "Pt": "Part", "pt": "part"},
    **{"ver": "version", "Ver": "Version", "v": "version", "V": "Version", "est": "established"},
    **{"Est": "Established", "c": "circa", "ca": "circa", "b": "born", "d": "died", "Tab": "Table"},
    **{"ll": "lines", "Apt": "Apartment", "apt": "apartment", "Rm": "Room", "min": "minimum"},
    **{"max": "maximum", "Max": "Maximum", "Op": "Opus", "op": "opus", "Ep": "Episode"},
    **{"ep": "episode", "Ser": "Series", "App": "Appendix", "Ex": "Example", "Nr": "Number"},
    **{"nr": "number", "Bk": "Book", "Lv": "Level", "lv": "level", "Lvl": "Level", "lvl": "level"},
    **{"Chap": "Chapter", "chap": "chapter", "chaps": "chapters", "Cl": "Clause", "cl": "clause"},
    **{"app": "appendix", "tab": "table", "bk": "book", "Lat": "Latitude"},
}
"""Abbreviations with a dot before a number; elsewhere they are words."""
BARE_BEFORE_NUMBERS = frozenset(("pp", "vol", "Vol", "Fig", "fig", "ext", "Ext", "Nr", "nr", "lvl"))
NUMBERED_WITH_LETTERS = frozenset(("fig", "Fig", "App", "apt", "Apt", "Ex", "Rm", "vol", "Vol"))

DOTTED: Mapping[str, str] = {
    "e.g.": "for example",
    "i.e.": "that is",
    "a.k.a.": "also known as",
    "w.r.t.": "with respect to",
    "c.f.": "compare",
    "n.b.": "note well",
    "E.g.": "For example",
    "I.e.": "That is",
    "eg.": "for example",
    "ie.": "that is",
}
"""Words that never end a sentence."""

SLASHED: Mapping[str, str] = {
    "and/or": "and or",
    "w/o": "without",
    "w/": "with",
    "b/c": "because",
    "c/o": "care of",
    "n/a": "N A",
    "a/c": "A C",
    "i/o": "I O",
    "b/w": "between",
    "he/she": "he or she",
    "she/he": "she or he",
    "his/her": "his or her",
    "him/her": "him or her",
    "s/he": "she or he",
    "yes/no": "yes or no",
    "tcp/ip": "T C P I P",
    "ac/dc": "A C D C",
    "pass/fail": "pass fail",
    "24/7": "twenty-four seven",
    "50/50": "fifty-fifty",
    "9/11": "nine eleven",
    "20/20": "twenty twenty",
}
TO_BETWEEN = frozenset(
    (
        "B2B",
        "B2C",
        "C2C",
        "P2P",
        "D2C",
        "E2E",
        "M2M",
        "F2F",
        "V2V",
        "V2X",
        "G2P",
        "B2G",
        "A2A",
        "C2B",
    )
)
"""Codes with a 2 that is spoken as "to"."""
SHORT_WORDS: Mapping[str, str] = {
    **{"aka": "also known as", "AKA": "also known as", "BTW": "by the way", "btw": "by the way"},
    **{"IMO": "in my opinion", "TBD": "to be determined", "thru": "through", "&c": "et cetera"},
    **{"ur": "your", "pls": "please", "plz": "please", "thx": "thanks", "Pls": "Please"},
    **{"ASAP": "A S A P", "FAQ": "F A Q", "FAQs": "F A Qs", "PhD": "P H D", "PhDs": "P H Ds"},
    **{"BSc": "B S C", "MSc": "M S C", "DIY": "D I Y", "WWW": "W W W", "www": "W W W"},
    **{"http": "H T T P", "https": "H T T P S", "ftp": "F T P", "mRNA": "M R N A"},
    **{"JSON": "json", "JPEG": "jay peg", "jpeg": "jay peg", "pH": "P H", "IPv": "I P V"},
    **{"\u03c0": "pi", "\u03b1": "alpha", "\u03b2": "beta", "\u03b3": "gamma", "\u03bb": "lambda"},
    **{
        "\u0394": "delta",
        "\u03b4": "delta",
        "\u03b8": "theta",
        "\u03c3": "sigma",
        "\u03a9": "omega",
    },
    **{"\u03c9": "omega", "\u03b5": "epsilon", "\u03c6": "phi", "\u03a3": "sigma"},
    **{"WWII": "World War two", "WWI": "World War one", "WW2": "World War two"},
}
LETTER_WORDS = (
    frozenset(
        (
            "plan",
            "vitamin",
            "type",
            "group",
            "grade",
            "hepatitis",
            "option",
            "section",
            "part",
            "team",
        )
    )
    | frozenset(
        ("class", "exhibit", "appendix", "point", "column", "block", "building", "gate", "terminal")
    )
    | frozenset(
        ("model", "series", "schedule", "side", "variant", "version", "letter", "figure", "apt")
    )
)
"""Words after which a capital is the name of a letter."""
SHOUTED = (
    frozenset(
        ("IT", "US", "WHO", "AM", "AN", "IS", "ALL", "AS", "AT", "BE", "BY", "DO", "GO", "HE", "IF")
    )
    | frozenset(
        (
            "IN",
            "ME",
            "MY",
            "NO",
            "OF",
            "ON",
            "OR",
            "SO",
            "TO",
            "UP",
            "WE",
            "ADD",
            "AND",
            "ARE",
            "CAN",
        )
    )
    | frozenset(
        ("MAY", "MUST", "HIS", "HER", "OUR", "OUT", "NOW", "NOT", "THE", "YES", "YOU", "ITS")
    )
)
