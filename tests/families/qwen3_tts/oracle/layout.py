"""Prints every tensor name and shape that the official modules have for a configuration.

Runs inside the oracle's environment: ``python layout.py CHECKPOINT`` prints one JSON object with
the keys ``main`` and ``codec``. Nothing is allocated: the modules live on the meta device.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

torch: Any = import_module("torch")


def layout(checkpoint: Path) -> dict[str, dict[str, list[int]]]:
    main = _shapes(
        "qwen_tts.core.models.modeling_qwen3_tts:Qwen3TTSForConditionalGeneration",
        "qwen_tts.core.models.configuration_qwen3_tts:Qwen3TTSConfig",
        checkpoint,
    )
    codec = _shapes(
        "qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2:Qwen3TTSTokenizerV2Model",
        "qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2"
        ":Qwen3TTSTokenizerV2Config",
        checkpoint / "speech_tokenizer",
    )
    return {"main": main, "codec": codec}


def _shapes(model: str, config: str, directory: Path) -> dict[str, list[int]]:
    values = _attribute(config).from_pretrained(directory)
    with torch.device("meta"):
        module = _attribute(model)(values)
    return {name: list(tensor.shape) for name, tensor in module.state_dict().items()}


def _attribute(target: str) -> Any:
    module, _, name = target.partition(":")
    return vars(import_module(module))[name]


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(layout(Path(sys.argv[1]))) + "\n")
