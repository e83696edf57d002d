"""Model card from the figures of a judgement and the log of a training."""

import json
from pathlib import Path
from string import Template
from typing import Any

_TEMPLATE = Path(__file__).with_name("model_card.md")
_MISSING = "not measured"


def write_card(file: Path, name: str, judgement: Path, log: Path) -> None:
    """Write the card of a model.

    Args:
        file: file to be written.
        name: name of the model.
        judgement: ``judgement.json`` of `judge`.
        log: ``log.jsonl`` of the training.
    """
    figures = json.loads(judgement.read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    begun = next(line for line in lines if line.get("event") == "start")
    fields: dict[str, Any] = {
        "name": name,
        "parameters": f"{begun['parameters'] / 1e6:.1f} million",
        "speakers": ", ".join(begun["speakers"]),
        "hours": round(max(line.get("hours", 0.0) for line in lines)),
        "tokens": begun["tokens"],
        "device": begun["device"],
        "steps": lines[-1].get("steps", _MISSING),
        "minutes": round(lines[-1]["elapsed_s"] / 60, 1),
        "texts": figures["texts"],
        "judged_on": figures["device"],
        "voice": figures.get("voice") or "the first voice",
        "streams_equal_wholes": "yes" if figures["streams_equal_wholes"] else "no",
    }
    for layout in ("whole", "late"):
        fields |= {f"{layout}_{key}": value for key, value in _shown(figures[layout]).items()}
    template = Template(_TEMPLATE.read_text(encoding="utf-8"))
    file.write_text(template.substitute(fields), encoding="utf-8")


def _shown(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of one layout as the card shows them."""
    shown: dict[str, Any] = {"word_error_rate": _MISSING, "distillmos": _MISSING, **figures}
    if "word_error_rate" in figures:
        shown["word_error_rate"] = f"{100 * figures['word_error_rate']:.1f} %"
    pace = figures["seconds_per_word"]
    return shown | {f"pace_{share}": pace[share] for share in ("p1", "p50", "p99")}
