"""Directories of checkpoints made from GGUF files: JSON files and an index, no copy of a tensor."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

from antiphon.errors import ModelLoadError
from antiphon.families.kit.formats.gguf_file import GGUFFile
from antiphon.nn.quantized.gguf_tensors import GGUFHeader, gguf_header, write_index

_VERSION: Final = "2"  # of the files that are written
LAYER_NAMES: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Names of a decoder layer's parts in GGUF, with those of transformers."""
Rename: TypeAlias = Callable[[str], tuple[str, int] | None]
"""Function from a tensor's name to its other name and `GGUFHeader.heads`; ``None``: unused."""


def made_folder(
    gguf: GGUFFile, write: Callable[[Path], None], rename: Rename, beside: Iterable[Path] = ()
) -> Path:
    """Return the directory made from a file, new or kept from before; raises ModelLoadError.

    It is in the cache of ``huggingface_hub``, by the path, size and time of the file.

    Args:
        write: writes all but the index of tensors into a directory.
        rename: names of tensors in the directory.
        beside: further files that the directory depends on, there or not.
    """
    from huggingface_hub import cached_assets_path

    path = gguf.path.resolve()
    facts = [_VERSION, str(path), str(gguf.num_bytes), str(path.stat().st_mtime_ns)]
    facts += [f"{each} {each.stat().st_mtime_ns}" for each in beside if each.exists()]
    digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
    try:
        parent = cached_assets_path("antiphon", "gguf")
        folder = parent / f"{path.stem}-{digest}"
        if not folder.is_dir():
            made = Path(tempfile.mkdtemp(dir=parent))
            try:
                write(made)
                write_index(made, path, _headers(gguf, rename))
                made.chmod(0o755)
                os.replace(made, folder)
            except OSError:
                if not folder.is_dir():  # else another process was first
                    raise
            finally:
                shutil.rmtree(made, ignore_errors=True)
    except OSError as error:
        message = f"{path}: its configuration cannot be kept in the cache of huggingface_hub"
        raise ModelLoadError(f"{message}: {error}") from error
    return folder


def _headers(gguf: GGUFFile, rename: Rename) -> dict[str, GGUFHeader]:
    parts = gguf.metadata.get("split.count", 1)
    if parts != 1:
        raise ModelLoadError(
            f"{gguf.path}: is one of {parts} parts ('split.count'); join them with"
            " llama-gguf-split --merge"
        )
    headers = {}
    for tensor in gguf.tensors.values():
        found = rename(tensor.name)
        if found is None:
            continue
        name, heads = found
        header = gguf_header(name, tensor.kind, tensor.shape, tensor.start, heads)
        end = header.start + header.num_bytes
        if end > gguf.num_bytes:
            raise ModelLoadError(
                f"{gguf.path}: has {gguf.num_bytes} bytes, but '{tensor.name}' ends at {end}"
            )
        headers[name] = header
    return headers
