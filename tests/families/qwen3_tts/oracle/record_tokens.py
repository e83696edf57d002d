"""Prints the ids that the official processor gives for every text, as JSON.

Runs inside the oracle's environment: ``python record_tokens.py CHECKPOINT`` prints one list for
each of `texts.TEXTS`: the ids of ``<|im_start|>assistant\\nTEXT<|im_end|>\\n``.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
os.environ["HF_HUB_OFFLINE"] = "1"


def record(checkpoint: Path) -> list[list[int]]:
    transformers: Any = import_module("transformers")
    models: Any = import_module("qwen_tts.core.models")
    transformers.AutoConfig.register("qwen3_tts", models.Qwen3TTSConfig)
    transformers.AutoProcessor.register(models.Qwen3TTSConfig, models.Qwen3TTSProcessor)
    # As the official loader calls it.
    processor = transformers.AutoProcessor.from_pretrained(checkpoint, fix_mistral_regex=True)
    texts: tuple[str, ...] = import_module("texts").TEXTS
    turns = (f"<|im_start|>assistant\n{text}<|im_end|>\n" for text in texts)
    return [processor(text=turn)["input_ids"][0] for turn in turns]


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(record(Path(sys.argv[1]))) + "\n")
