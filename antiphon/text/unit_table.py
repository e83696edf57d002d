"""Spoken forms of units of measure, currencies and signs."""

from collections.abc import Mapping

CURRENCIES: Mapping[str, tuple[str, str, str, str]] = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "\u20ac": ("euro", "euros", "cent", "cents"),
    "\u00a3": ("pound", "pounds", "penny", "pence"),
    "\u00a5": ("yen", "yen", "", ""),
    "\u20b9": ("rupee", "rupees", "paisa", "paise"),
    "\u20a9": ("won", "won", "", ""),
    "\u20bd": ("ruble", "rubles", "kopeck", "kopecks"),
    "\u20ba": ("lira", "lira", "kurush", "kurush"),
    "\u20aa": ("shekel", "shekels", "agora", "agorot"),
    "\u20ab": ("dong", "dong", "", ""),
    "\u20b4": ("hryvnia", "hryvnias", "kopeck", "kopecks"),
    "\u20b1": ("peso", "pesos", "centavo", "centavos"),
    "\u20a6": ("naira", "naira", "kobo", "kobo"),
    "\u0e3f": ("baht", "baht", "satang", "satang"),
    "\u20bf": ("bitcoin", "bitcoins", "", ""),
    "\u00a2": ("cent", "cents", "", ""),
}
"""Singular and plural of a currency and of its subunit, by sign; empty subunits are not spoken."""

CURRENCY_CODES: Mapping[str, tuple[str, str, str, str]] = {
    "USD": ("U S dollar", "U S dollars", "cent", "cents"),
    "EUR": CURRENCIES["\u20ac"],
    "GBP": CURRENCIES["\u00a3"],
    "JPY": CURRENCIES["\u00a5"],
    "INR": CURRENCIES["\u20b9"],
    "KRW": CURRENCIES["\u20a9"],
    "CNY": ("yuan", "yuan", "", ""),
    "RMB": ("yuan", "yuan", "", ""),
    "CHF": ("Swiss franc", "Swiss francs", "centime", "centimes"),
    "CAD": ("Canadian dollar", "Canadian dollars", "cent", "cents"),
    "AUD": ("Australian dollar", "Australian dollars", "cent", "cents"),
    "NZD": ("New Zealand dollar", "New Zealand dollars", "cent", "cents"),
    "SEK": ("Swedish krona", "Swedish kronor", "", ""),
    "NOK": ("Norwegian krone", "Norwegian kroner", "", ""),
    "DKK": ("Danish krone", "Danish kroner", "", ""),
    "PLN": ("zloty", "zlotys", "", ""),
    "MXN": ("Mexican peso", "Mexican pesos", "", ""),
    "BRL": ("real", "reals", "", ""),
    "BTC": ("bitcoin", "bitcoins", "", ""),
    "Rs": CURRENCIES["\u20b9"],
}
REAL = ("real", "reals", "centavo", "centavos")
DOLLARS: Mapping[str, str] = {
    "US": "U S",
    "C": "Canadian",
    "CA": "Canadian",
    "A": "Australian",
    "AU": "Australian",
    "NZ": "New Zealand",
    "HK": "Hong Kong",
    "S": "Singapore",
    "NT": "New Taiwan",
}
"""Letters before a dollar sign."""

SCALES: Mapping[str, str] = {
    **dict.fromkeys(("k", "K"), "thousand"),
    **dict.fromkeys(("m", "M", "mn", "mln", "MM", "mil"), "million"),
    **dict.fromkeys(("b", "B", "bn", "bln", "Bn"), "billion"),
    **dict.fromkeys(("t", "T", "tn", "trn"), "trillion"),
}
"""Letters that directly follow an amount of money."""
SCALE_WORDS = frozenset(("hundred", "thousand", "million", "billion", "trillion"))


def _regular(*names: str) -> dict[str, tuple[str, str]]:
    pairs = (name.split(":") for name in names)
    return {symbol: (word, f"{word}s") for symbol, word in pairs}


def _same(*names: str) -> dict[str, tuple[str, str]]:
    pairs = (name.split(":") for name in names)
    return {symbol: (word, word) for symbol, word in pairs}


UNITS: Mapping[str, tuple[str, str]] = {
    **_regular("km:kilometer", "m:meter", "dm:decimeter", "cm:centimeter", "mm:millimeter"),
    **_regular("\u00b5m:micrometer", "um:micrometer", "nm:nanometer", "mi:mile", "yd:yard"),
    **_regular("yds:yard", "kg:kilogram", "g:gram", "mg:milligram", "\u00b5g:microgram"),
    **_regular("mcg:microgram", "ng:nanogram", "lb:pound", "lbs:pound", "oz:ounce", "t:ton"),
    **_regular("l:liter", "L:liter", "dl:deciliter", "dL:deciliter", "cl:centiliter"),
    **_regular("cL:centiliter", "ml:milliliter", "mL:milliliter", "\u00b5l:microliter"),
    **_regular("\u00b5L:microliter", "gal:gallon", "qt:quart", "pt:pint", "tbsp:tablespoon"),
    **_regular("Tbsp:tablespoon", "tsp:teaspoon", "ha:hectare", "ac:acre", "kb:kilobit"),
    **_regular("Kb:kilobit", "Mb:megabit", "Gb:gigabit", "kB:kilobyte", "KB:kilobyte"),
    **_regular("MB:megabyte", "GB:gigabyte", "TB:terabyte", "PB:petabyte", "KiB:kibibyte"),
    **_regular("MiB:mebibyte", "GiB:gibibyte", "TiB:tebibyte", "px:pixel", "W:watt"),
    **_regular("kW:kilowatt", "KW:kilowatt", "MW:megawatt", "GW:gigawatt", "TW:terawatt"),
    **_regular("mW:milliwatt", "V:volt", "kV:kilovolt", "mV:millivolt", "mA:milliamp"),
    **_regular("A:amp", "J:joule", "kJ:kilojoule", "MJ:megajoule", "cal:calorie"),
    **_regular("kcal:kilocalorie", "Pa:pascal", "kPa:kilopascal", "hPa:hectopascal"),
    **_regular("MPa:megapascal", "mbar:millibar", "N:newton", "kN:kilonewton", "Nm:newton meter"),
    **_regular("dB:decibel", "h:hour", "hr:hour", "hrs:hour", "min:minute", "mins:minute"),
    **_regular("s:second", "sec:second", "secs:second", "ms:millisecond", "ns:nanosecond"),
    **_regular("\u00b5s:microsecond", "us:microsecond", "yr:year", "yrs:year", "mo:month"),
    **_regular("mos:month", "wk:week", "wks:week", "kWh:kilowatt hour", "Wh:watt hour"),
    **_regular("MWh:megawatt hour", "GWh:gigawatt hour", "TWh:terawatt hour", "Ah:amp hour"),
    **_regular("mAh:milliamp hour", "lm:lumen", "mol:mole", "mmol:millimole", "ly:light year"),
    **_regular("\u03a9:ohm", "\u2126:ohm", "k\u03a9:kilohm"),
    **_regular("MP:megapixel", "ct:carat", "kt:knot", "kts:knot", "kn:knot", "rad:radian"),
    **_same("Hz:hertz", "kHz:kilohertz", "MHz:megahertz", "GHz:gigahertz", "THz:terahertz"),
    **_same("lx:lux", "pct:percent", "ppm:parts per million", "doz:dozen"),
    **_same("ppb:parts per billion", "psi:P S I", "dpi:D P I", "ppi:P P I", "rpm:R P M"),
    **_same(
        "RPM:R P M", "bpm:beats per minute", "BPM:beats per minute", "bar:bar", "hp:horsepower"
    ),
    **_same("HP:horsepower", "bps:bits per second", "fps:frames per second"),
    "in": ("inch", "inches"),
    "ft": ("foot", "feet"),
    "cc": ("C C", "C Cs"),
    "mph": ("mile per hour", "miles per hour"),
    "mpg": ("mile per gallon", "miles per gallon"),
    "kph": ("kilometer per hour", "kilometers per hour"),
    "kmh": ("kilometer per hour", "kilometers per hour"),
    "kbps": ("kilobit per second", "kilobits per second"),
    "Mbps": ("megabit per second", "megabits per second"),
    "Gbps": ("gigabit per second", "gigabits per second"),
    "sq ft": ("square foot", "square feet"),
    "sq mi": ("square mile", "square miles"),
    "sq m": ("square meter", "square meters"),
    "sq km": ("square kilometer", "square kilometers"),
    "sq in": ("square inch", "square inches"),
    "cu ft": ("cubic foot", "cubic feet"),
    "fl oz": ("fluid ounce", "fluid ounces"),
    "nmi": ("nautical mile", "nautical miles"),
}
"""Singular and plural by symbol."""

NOT_AFTER_SPACE = frozenset(("A", "N", "K", "in", "t", "us", "ac", "mo", "ct", "MP", "bar"))
"""Units that are words or names after a space."""
WITH_DOT = frozenset(
    ("in", "ft", "lb", "lbs", "oz", "yd", "yds", "mi", "min", "mins", "hr", "hrs", "sec", "secs")
) | frozenset(("gal", "qt", "pt", "tbsp", "tsp", "sq", "fl", "mo", "mos", "yr", "yrs", "wk", "doz"))
"""Units that are written with a dot too."""
PER_WORDS = frozenset(
    ("second", "minute", "hour", "day", "night", "week", "month", "year", "person", "user", "unit")
) | frozenset(("mile", "gallon", "hr", "min", "sec", "mo", "yr", "wk", "head", "piece", "share"))
"""Words before which a slash is read as "per", after an amount."""
PER_SHORT: Mapping[str, str] = {"mo": "month", "yr": "year", "wk": "week", "d": "day"}

FRACTION_SIGNS: Mapping[str, tuple[int, int]] = {
    "\u00bd": (1, 2),
    "\u00bc": (1, 4),
    "\u00be": (3, 4),
    "\u2153": (1, 3),
    "\u2154": (2, 3),
    "\u2155": (1, 5),
    "\u2156": (2, 5),
    "\u2157": (3, 5),
    "\u2158": (4, 5),
    "\u2159": (1, 6),
    "\u215a": (5, 6),
    "\u215b": (1, 8),
    "\u215c": (3, 8),
    "\u215d": (5, 8),
    "\u215e": (7, 8),
    "\u2150": (1, 7),
    "\u2151": (1, 9),
    "\u2152": (1, 10),
    "\u2189": (0, 3),
}

SIGN_WORDS: Mapping[str, str] = {
    "=": "equals",
    "+": "plus",
    "\u2212": "minus",
    "\u00d7": "times",
    "\u00f7": "divided by",
    "\u00b1": "plus or minus",
    "\u2213": "minus or plus",
    "<": "less than",
    ">": "greater than",
    "\u2264": "less than or equal to",
    "\u2265": "greater than or equal to",
    "\u2260": "not equal to",
    "\u2248": "approximately",
    "\u2245": "approximately",
    "\u2261": "is equivalent to",
    "\u221d": "proportional to",
    "\u221e": "infinity",
    "\u221a": "square root of",
    "\u2211": "sum of",
    "\u222b": "integral of",
    "\u2202": "partial",
    "\u2208": "in",
    "\u222a": "union",
    "\u2229": "intersection",
    "\u2200": "for all",
    "\u2203": "there exists",
    "\u2192": "to",
    "\u21d2": "implies",
    "\u2194": "to and from",
    "&": "and",
    "@": "at",
    "%": "percent",
    "\u2030": "per mille",
    "\u00b0": "degrees",
    "\u00b2": "squared",
    "\u00b3": "cubed",
    "\u00a7": "section",
    "\u00b6": "paragraph",
    "\u00a9": "copyright",
    "\u00a2": "cents",
    "~": "about",
    "#": "hash",
    "/": "slash",
    "\\": "backslash",
    "^": "to the power of",
    "\u2032": "prime",
    "\u2033": "double prime",
}
"""Signs on their own."""

SIGN_PAIRS: Mapping[str, str] = {
    "->": "to",
    "=>": "implies",
    ">=": "greater than or equal to",
    "<=": "less than or equal to",
    "!=": "not equal to",
    "==": "equals",
    "&&": "and",
    "<-": "from",
}
SUPERSCRIPTS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
SUBSCRIPTS = "\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089"
