"""A trained codec as a folder ``speech_tokenizer/`` in the official format."""

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from antiphon_training.codec import Codec
from antiphon_training.quantizer import ResidualQuantizer
from antiphon_training.sizes import SAMPLE_RATE_HZ, CodecSizes

_PREPROCESSOR = {
    "chunk_length_s": None,
    "feature_extractor_type": "EncodecFeatureExtractor",
    "feature_size": 1,
    "overlap": None,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
    "sampling_rate": SAMPLE_RATE_HZ,
}


def official_tensors(codec: Codec) -> dict[str, Tensor]:
    """Return all tensors by their official names.

    Projections into the decoder's quantizers, and out of the encoder's, exist in that layout
    although nothing reads them: they are zero.
    """
    halves = {"encoder": codec.encoder, "decoder": codec.decoder}
    tensors = {
        f"{half}.{name}": value
        for half, module in halves.items()
        for name, value in module.state_dict().items()
    }
    tensors |= dict(_decoder_quantizer("first", codec.first, codec))
    tensors |= dict(_decoder_quantizer("rest", codec.rest, codec))
    tensors |= dict(_encoder_quantizer("semantic", codec.first, codec))
    tensors |= dict(_encoder_quantizer("acoustic", codec.rest, codec))
    return tensors


def export_codec(
    codec: Codec, folder: Path, *, with_encoder: bool = True, dtype: torch.dtype = torch.float32
) -> None:
    """Write config, preprocessor config and weights.

    Args:
        codec: codec in use.
        folder: folder to be written, ``speech_tokenizer`` of a checkpoint.
        with_encoder: whether to write the encoder, which only cloning needs.
        dtype: type of the weights.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: value.detach().to("cpu", dtype).contiguous()
        for name, value in official_tensors(codec).items()
        if with_encoder or name.startswith("decoder.")
    }
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = codec.sizes.config()
    config["dtype"] = str(dtype).removeprefix("torch.")
    if not with_encoder:
        config["encoder_config"] = None
    _write(folder / "config.json", config)
    _write(folder / "preprocessor_config.json", _PREPROCESSOR)


def read_codec(folder: Path, device: torch.device) -> Codec:
    """Read what `export_codec` wrote with the encoder, for use."""
    from safetensors.torch import load_file

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    codec = Codec(CodecSizes.of_config(config))
    tensors = {
        name: value.float() for name, value in load_file(folder / "model.safetensors").items()
    }
    for half, module in (("encoder", codec.encoder), ("decoder", codec.decoder)):
        module.load_state_dict({name: tensors[f"{half}.{name}"] for name in module.state_dict()})
    for kind, other, quantizer in (
        ("first", "semantic", codec.first),
        ("rest", "acoustic", codec.rest),
    ):
        encoder_side = f"encoder.quantizer.{other}_residual_vector_quantizer"
        decoder_side = f"decoder.quantizer.rvq_{kind}"
        with torch.no_grad():
            quantizer.input_proj.weight.copy_(tensors[f"{encoder_side}.input_proj.weight"])
            quantizer.output_proj.weight.copy_(tensors[f"{decoder_side}.output_proj.weight"])
            for index in range(len(quantizer.usage)):
                table = f"{decoder_side}.vq.layers.{index}._codebook"
                quantizer.usage[index] = tensors[f"{table}.cluster_usage"]
                quantizer.sums[index] = tensors[f"{table}.embedding_sum"]
    return codec.to(device).eval()


def _decoder_quantizer(
    kind: str, quantizer: ResidualQuantizer, codec: Codec
) -> Iterator[tuple[str, Tensor]]:
    name = f"decoder.quantizer.rvq_{kind}"
    dim = codec.sizes.vector_dim
    output = quantizer.output_proj.weight
    yield f"{name}.input_proj.weight", output.new_zeros(dim, 2 * dim, 1)
    yield f"{name}.output_proj.weight", output
    for index in range(len(quantizer.usage)):
        table = f"{name}.vq.layers.{index}._codebook"
        usage, sums = _unit_usage(quantizer, index)
        yield f"{table}.cluster_usage", usage
        yield f"{table}.embedding_sum", sums


def _encoder_quantizer(
    kind: str, quantizer: ResidualQuantizer, codec: Codec
) -> Iterator[tuple[str, Tensor]]:
    name = f"encoder.quantizer.{kind}_residual_vector_quantizer"
    hidden, dim = codec.sizes.encoder_hidden_size, codec.sizes.vector_dim
    yield f"{name}.input_proj.weight", quantizer.input_proj.weight
    yield f"{name}.output_proj.weight", quantizer.usage.new_zeros(hidden, dim, 1)
    for index in range(len(quantizer.usage)):
        table = f"{name}.layers.{index}.codebook"
        usage, sums = _unit_usage(quantizer, index)
        yield f"{table}.initialized", usage.new_ones(1)
        yield f"{table}.cluster_usage", usage
        yield f"{table}.embed_sum", sums


def _unit_usage(quantizer: ResidualQuantizer, index: int) -> tuple[Tensor, Tensor]:
    """Return a codebook as counts of one and sums: the quotient is the same, and fits float16."""
    table = quantizer.table(index)
    return torch.ones_like(table[:, 0]), table


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
