"""Tables written as text."""


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def pairs(text: str) -> dict[str, str]:
    """Return a mapping written as "key=value, key=value"."""
    entries = " ".join(text.split()).split(", ")
    return {key: value for key, _, value in (entry.rpartition("=") for entry in entries)}


def either_case(text: str) -> dict[str, str]:
    """Return a mapping as of `pairs`, for keys with a small and with a capital letter."""
    small = pairs(text)
    large = {key[0].upper() + key[1:]: value[0].upper() + value[1:] for key, value in small.items()}
    return large | small


def forms(text: str) -> dict[str, tuple[str, ...]]:
    """Return a mapping to several forms, written as "key=form/form"."""
    return {key: tuple(value.split("/")) for key, value in pairs(text).items()}


def counted(text: str) -> dict[str, tuple[str, ...]]:
    """Return singular and plural of names, written as `forms`; a regular plural is left out."""
    return {key: (*names, f"{names[0]}s")[:2] for key, names in forms(text).items()}
