"""Endings of addresses and file names, and other marks of spelled text."""

from collections.abc import Mapping

DOMAIN_ENDINGS = (
    frozenset(
        ("com", "org", "net", "edu", "gov", "mil", "int", "io", "co", "uk", "de", "fr", "es", "it")
    )
    | frozenset(
        (
            "nl",
            "be",
            "ch",
            "at",
            "se",
            "no",
            "dk",
            "fi",
            "pl",
            "cz",
            "pt",
            "ie",
            "eu",
            "us",
            "ca",
            "au",
        )
    )
    | frozenset(
        (
            "nz",
            "jp",
            "cn",
            "in",
            "kr",
            "br",
            "mx",
            "ru",
            "tv",
            "me",
            "ly",
            "ai",
            "info",
            "biz",
            "app",
        )
    )
    | frozenset(
        ("dev", "xyz", "online", "site", "shop", "blog", "cloud", "tech", "gg", "fm", "local")
    )
)
SURE_DOMAIN_ENDINGS = frozenset(
    ("com", "org", "net", "edu", "gov", "mil", "io", "info", "biz", "app", "dev", "xyz", "uk", "de")
) | frozenset(("fr", "eu", "ai", "tv", "au", "ca", "nz", "jp", "cn", "gg", "ly", "co", "ch", "nl"))
"""Endings that make an address of two words with a dot between."""

FILE_ENDINGS = (
    frozenset(
        (
            "pdf",
            "html",
            "htm",
            "jpg",
            "jpeg",
            "png",
            "gif",
            "svg",
            "txt",
            "doc",
            "docx",
            "xls",
            "xlsx",
        )
    )
    | frozenset(
        (
            "ppt",
            "pptx",
            "csv",
            "json",
            "yaml",
            "yml",
            "xml",
            "toml",
            "ini",
            "cfg",
            "log",
            "md",
            "rst",
        )
    )
    | frozenset(
        (
            "py",
            "js",
            "ts",
            "jsx",
            "tsx",
            "css",
            "scss",
            "php",
            "rb",
            "go",
            "rs",
            "java",
            "cpp",
            "c",
            "h",
        )
    )
    | frozenset(
        (
            "hpp",
            "cs",
            "sh",
            "bat",
            "exe",
            "dll",
            "zip",
            "tar",
            "gz",
            "rar",
            "mp3",
            "mp4",
            "wav",
            "ogg",
        )
    )
    | frozenset(
        (
            "flac",
            "avi",
            "mov",
            "mkv",
            "iso",
            "bin",
            "dat",
            "db",
            "sql",
            "ipynb",
            "lock",
            "env",
            "conf",
        )
    )
    | frozenset(
        ("webp", "webm", "bak", "tmp", "app", "apk", "dmg", "deb", "rpm", "epub", "psd", "tex")
    )
)

SPOKEN_CODES: Mapping[str, str] = {
    **{"com": "com", "org": "org", "net": "net", "gov": "gov", "mil": "mil", "info": "info"},
    **{"biz": "biz", "txt": "text", "docx": "doc X", "jpeg": "jay peg", "json": "json"},
    **{"yaml": "yaml", "toml": "toml", "www": "W W W", "usr": "user", "etc": "et cetera"},
    **{"readme": "read me", "wav": "wave", "gif": "gif", "config": "config", "img": "image"},
    **{"src": "source", "exe": "E X E", "py": "P Y", "bin": "bin", "lib": "lib", "env": "E N V"},
    **{"tmp": "temp", "doc": "doc", "docs": "docs", "zip": "zip", "log": "log", "bat": "bat"},
    **{"xlsx": "X L S X", "pptx": "P P T X", "html": "H T M L", "java": "java", "tar": "tar"},
    **{"lock": "lock", "app": "app", "dev": "dev", "tech": "tech", "shop": "shop", "site": "site"},
    **{"blog": "blog", "online": "online", "cloud": "cloud", "local": "local", "conf": "conf"},
    **{"repo": "repo", "init": "init", "utils": "utils", "admin": "admin", "int": "int"},
    **{"mov": "M O V", "flac": "flac", "ini": "ini", "iso": "I S O", "css": "C S S", "go": "go"},
    **{"edu": "E D U", "sql": "S Q L", "dat": "dat", "env.": "E N V", "tex": "tech", "bak": "bak"},
}
"""Spoken forms of parts of addresses and file names; others of up to three letters without a vowel,
and all endings of up to three letters, are spelled."""

CODE_SIGNS: Mapping[str, str] = {
    ".": "dot",
    "@": "at",
    "/": "slash",
    "\\": "backslash",
    ":": "colon",
    "-": "dash",
    "_": "underscore",
    "~": "tilde",
    "?": "question mark",
    "&": "and",
    "=": "equals",
    "#": "hash",
    "+": "plus",
    "%": "percent",
    "$": "dollar",
    "*": "star",
    ",": "comma",
    ";": "semicolon",
    "!": "exclamation point",
    "(": "open parenthesis",
    ")": "close parenthesis",
    "[": "open bracket",
    "]": "close bracket",
    "<": "less than",
    ">": "greater than",
    "|": "bar",
    "^": "caret",
    "'": "apostrophe",
    "{": "open brace",
    "}": "close brace",
}
ELEMENTS = (
    frozenset(
        (
            "H",
            "He",
            "Li",
            "Be",
            "B",
            "C",
            "N",
            "O",
            "F",
            "Ne",
            "Na",
            "Mg",
            "Al",
            "Si",
            "P",
            "S",
            "Cl",
        )
    )
    | frozenset(
        (
            "Ar",
            "K",
            "Ca",
            "Ti",
            "Cr",
            "Mn",
            "Fe",
            "Co",
            "Ni",
            "Cu",
            "Zn",
            "Br",
            "Ag",
            "I",
            "Au",
            "Hg",
        )
    )
    | frozenset(
        ("Pb", "U", "Sn", "Ba", "Sr", "Cs", "Pt", "W", "V", "Xe", "Kr", "As", "Se", "Cd", "Mo")
    )
)
NAMED_SIGNS: Mapping[str, str] = {
    "C#": "C sharp",
    "F#": "F sharp",
    "G#": "G sharp",
    "D#": "D sharp",
    "A#": "A sharp",
    "C++": "C plus plus",
    "c++": "C plus plus",
    "G++": "G plus plus",
    ".NET": "dot net",
}
HTML_TAGS = (
    frozenset(
        ("a", "abbr", "b", "big", "body", "br", "code", "div", "em", "font", "h1", "h2", "h3", "h4")
    )
    | frozenset(
        (
            "hr",
            "html",
            "i",
            "img",
            "li",
            "mark",
            "ol",
            "p",
            "pre",
            "q",
            "s",
            "small",
            "span",
            "strong",
        )
    )
    | frozenset(
        ("sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "tt", "u", "ul", "del", "ins")
    )
)
