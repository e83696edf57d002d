"""Makers of checkpoints of random weights, for tests and measurements."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias, get_args

from antiphon.config import LoadFormat
from antiphon.nn.random_weights import Dtype, check_arguments

_log = logging.getLogger(__name__)

Json: TypeAlias = dict[str, Any]

DRAWN_FILE = "antiphon.json"
"""Mark of a directory without weights: they are random, as with the load format "dummy"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """Arguments of a maker of checkpoints.

    Attributes:
        size: "tiny" runs in seconds on a CPU, others are published ones.
        task: name of a task; ``None``: the first that the maker has.
        vocabulary: "byte" reads any text.
        dtype: number type of weights that are not always float32.
    """

    size: Any = "tiny"
    task: Any = None
    vocabulary: Any = "byte"
    dtype: Dtype = "float32"


@dataclass(frozen=True, slots=True)
class CheckpointMaker:
    """Writer of checkpoints of one family without weights, which are drawn by name when loaded.

    Attributes:
        write: function of a directory and the arguments.
        sizes: names of sizes; empty, as for the others: any value.
        tasks: names of tasks, the default first.
    """

    write: Callable[[Path, Making], None]
    sizes: Sequence[str] = ()
    tasks: Sequence[str] = ()
    vocabularies: Sequence[str] = ("byte",)
    dtypes: Sequence[str] = get_args(Dtype)

    def __call__(self, path: Path, **arguments: Any) -> None:
        """Write a checkpoint, replacing files, by the fields of `Making`; raises ModelLoadError."""
        making = Making(**arguments)
        if making.task is None and self.tasks:
            making = replace(making, task=self.tasks[0])
        allowed = {
            "size": (making.size, self.sizes),
            "task": (str(making.task), self.tasks),
            "vocabulary": (making.vocabulary, self.vocabularies),
            "dtype": (making.dtype, self.dtypes),
        }
        check_arguments(**{name: each for name, each in allowed.items() if each[1]})
        path.mkdir(parents=True, exist_ok=True)
        self.write(path, making)
        write_json(path / DRAWN_FILE, {"load_format": "dummy"})


def checkpoint_maker(
    **values: Sequence[str],
) -> Callable[[Callable[[Path, Making], None]], CheckpointMaker]:
    """Turn a function into a `CheckpointMaker` with these attributes."""
    return lambda write: CheckpointMaker(write, **values)


def has_drawn_weights(path: Path) -> bool:
    """Return whether a checkpoint's directory was made without weights."""
    return (path / DRAWN_FILE).is_file()


def load_format_of(path: Path | None, load_format: LoadFormat) -> LoadFormat:
    """Return "dummy" for a directory that was made without weights, else the format given."""
    if path is None or not has_drawn_weights(path):
        return load_format
    _log.warning("%s: was made without weights; random ones are drawn.", path)
    return "dummy"


def configs_of(data: Path, *choices: str) -> dict[str, Json]:
    """Return the configuration files of a made checkpoint, by their paths in its directory.

    Args:
        data: JSON file with one object a file: its parts by choice, with "common" in all of them.
        choices: size, task and the like; later ones have precedence.
    """
    files = json.loads(data.read_text(encoding="utf-8"))
    chosen = ("common", *choices)
    return {
        file: reduce(_merged, (parts[each] for each in chosen if each in parts), Json())
        for file, parts in files.items()
    }


def _merged(base: Json, more: Json) -> Json:
    """Return the union of two objects and of their members that are objects."""
    return base | {
        key: _merged(base[key], value) if isinstance(value, dict) and key in base else value
        for key, value in more.items()
    }


def write_configs(path: Path, configs: Mapping[str, Json]) -> None:
    """Write configuration files, by their paths in the checkpoint's directory."""
    for name, content in configs.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        write_json(path / name, content)


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file in ASCII."""
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_byte_tokenizer(
    path: Path,
    special_tokens: Sequence[str],
    config: Mapping[str, object],
    vocabulary: Mapping[str, int] | None = None,
) -> int:
    """Write tokenizer.json and tokenizer_config.json; return the number of ids.

    Args:
        special_tokens: tokens whose ids follow those of the bytes.
        config: members of tokenizer_config.json beside the tokenizer's class.
        vocabulary: ids by the letters that stand for bytes; ``None``: in the letters' order.
    """
    # Here: checkpoints are inspected, with this module, where tokenizers is not installed.
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    if vocabulary is None:
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        vocabulary = {letter: number for number, letter in enumerate(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=dict(vocabulary), merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in special_tokens]
    )
    tokenizer.save(str(path / "tokenizer.json"))
    content = {"tokenizer_class": "PreTrainedTokenizerFast", **config}
    write_json(path / "tokenizer_config.json", content)
    return tokenizer.get_vocab_size(with_added_tokens=True)
