"""Prints the distributions that the official package draws a first frame's first two codes from.

Runs inside the oracle's environment: ``python record_draws.py CHECKPOINT`` prints one JSON list for
the checkpoint ``custom`` of `cases.CHECKPOINTS`, with an entry for each of `draws.SAMPLINGS`:
``group_0`` and ``group_1``, each ``[[token, probability], ...]``. The likeliest token is taken
every time, so that the second distribution is the one after the likeliest first code.
"""

import dataclasses
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
os.environ["HF_HUB_OFFLINE"] = "1"

draws: Any = import_module("draws")
torch: Any = import_module("torch")
Qwen3TTSModel: Any = import_module("qwen_tts").Qwen3TTSModel


def record(checkpoint: Path) -> list[dict[str, list[list[float]]]]:
    official = Qwen3TTSModel.from_pretrained(checkpoint, device_map="cpu", dtype=torch.float32)
    return [_distributions(official, sampling) for sampling in draws.SAMPLINGS]


def _distributions(official: Any, sampling: Any) -> dict[str, list[list[float]]]:
    seen: list[Any] = []

    def take_likeliest(probabilities: Any, num_samples: int) -> Any:
        seen.append(probabilities[0])
        return probabilities.argmax(-1, keepdim=True)

    torch.multinomial = take_likeliest
    official.generate_custom_voice(
        text=draws.TEXT, speaker=draws.SPEAKER, max_new_tokens=3, **dataclasses.asdict(sampling)
    )
    return {"group_0": _listed(seen[0]), "group_1": _listed(seen[1])}


def _listed(probabilities: Any) -> list[list[float]]:
    tokens = probabilities.nonzero()[:, 0].tolist()
    return [[token, round(float(probabilities[token]), 7)] for token in tokens]


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.stdout.write("\n" + json.dumps(record(Path(sys.argv[1]))) + "\n")
