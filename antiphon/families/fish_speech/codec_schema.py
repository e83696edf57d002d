"""Sizes of the codec, and the layout of its tensors."""

from dataclasses import dataclass

from antiphon.families.fish_speech.config import RESIDUAL_CODES
from antiphon.families.kit.dac.layers import DILATIONS
from antiphon.families.kit.layouts import Layout, affine, convnext, repeated, under
from antiphon.nn.layer_configs import TransformerConfig

HEAD_DIM = 64
FRAME_WINDOW, ENCODER_WINDOW = 128, 512
"""Attention windows in steps, including the step itself: of frames (21.5 Hz), of the encoder."""
_KERNEL, _LAST_ENCODER_KERNEL = 7, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecSizes:
    """Sizes of the codec; the defaults are the published ones.

    Attributes:
        encoder_width: channels after the first convolution; each block doubles them.
        strides: strides of the encoder's blocks.
        encoder_layers: transformer layers in each of the encoder's blocks.
        frame_layers: transformer layers over frames, before and after the quantizer.
        feed_forward_width: width of these layers' feed-forward; the encoder uses three times its
            own width.
        decoder_width: channels after the decoder's first convolution; each block halves them.
        rates: upsampling factors of the decoder's blocks.
        factors: down- and upsampling factors between steps of encoder or decoder and frames.
        codebook_dim: size of a codebook's vectors.
    """

    encoder_width: int = 64
    strides: tuple[int, ...] = (2, 4, 8, 8)
    encoder_layers: tuple[int, ...] = (0, 0, 0, 4)
    latent_width: int = 1024
    frame_layers: int = 8
    feed_forward_width: int = 3072
    decoder_width: int = 1536
    rates: tuple[int, ...] = (8, 8, 4, 2)
    factors: tuple[int, ...] = (2, 2)
    codebook_dim: int = 8
    semantic_codes: int = 4096
    residual_codes: int = RESIDUAL_CODES
    num_residual: int = 9

    @property
    def frames(self) -> TransformerConfig:
        """Sizes of the transformers over frames."""
        return _transformer_config(
            self.latent_width, self.feed_forward_width, self.frame_layers, FRAME_WINDOW
        )

    def encoder_config(self, block: int) -> TransformerConfig:
        """Sizes of the transformer in a block of the encoder, counted from 0."""
        width = self.encoder_width << (block + 1)
        return _transformer_config(width, 3 * width, self.encoder_layers[block], ENCODER_WINDOW)


def _transformer_config(width: int, inner: int, num_layers: int, window: int) -> TransformerConfig:
    return TransformerConfig(
        hidden_size=width,
        intermediate_size=inner,
        num_layers=num_layers,
        num_heads=width // HEAD_DIM,
        num_kv_heads=width // HEAD_DIM,
        head_dim=HEAD_DIM,
        norm_eps=1e-5,
        rope_theta=10_000.0,
        max_positions=0,  # streams have no maximum length
        window=window,
    )


def codec_layout(sizes: CodecSizes) -> Layout:
    """Return the layout of all tensors, weight-normalised ones as one tensor each."""
    return {**_encoder(sizes), **_quantizer(sizes), **_decoder(sizes)}


def _snake(name: str, width: int) -> Layout:
    return {f"{name}.alpha": (1, width, 1)}


def _residual_unit(name: str, width: int) -> Layout:
    return {
        **_snake(f"{name}.block.0", width),
        **affine(f"{name}.block.1.conv", width, width, _KERNEL),
        **_snake(f"{name}.block.2", width),
        **affine(f"{name}.block.3.conv", width, width, 1),
    }


def layer_layout(config: TransformerConfig) -> Layout:
    """Return the layout of a transformer layer by Fish Speech's names."""
    width, inner = config.hidden_size, config.intermediate_size
    queries = config.num_heads * config.head_dim
    return {
        "attention.wqkv.weight": (queries + 2 * config.num_kv_heads * config.head_dim, width),
        "attention.wo.weight": (width, queries),
        "feed_forward.w1.weight": (inner, width),
        "feed_forward.w3.weight": (inner, width),
        "feed_forward.w2.weight": (width, inner),
        "ffn_norm.weight": (width,),
        "attention_norm.weight": (width,),
    }


def _transformer(name: str, config: TransformerConfig) -> Layout:
    width = config.hidden_size
    layer = layer_layout(config)
    layer |= {"attention_layer_scale.gamma": (width,), "ffn_layer_scale.gamma": (width,)}
    layers = repeated("layers", config.num_layers, layer)
    return under(name, layers | {"norm.weight": (width,)})


def _encoder(sizes: CodecSizes) -> Layout:
    width = sizes.encoder_width
    layout = affine("encoder.block.0.conv", width, 1, _KERNEL)
    for block, stride in enumerate(sizes.strides):
        name = f"encoder.block.{block + 1}.block"
        for unit in range(len(DILATIONS)):
            layout |= _residual_unit(f"{name}.{unit}", width)
        layout |= _snake(f"{name}.3", width)
        layout |= affine(f"{name}.4.conv", 2 * width, width, 2 * stride)
        if sizes.encoder_layers[block]:
            layout |= _transformer(f"{name}.5", sizes.encoder_config(block))
        width *= 2
    last = len(sizes.strides) + 1
    layout |= _snake(f"encoder.block.{last}", width)
    layout |= affine(
        f"encoder.block.{last + 1}.conv", sizes.latent_width, width, _LAST_ENCODER_KERNEL
    )
    return layout


def _quantizer(sizes: CodecSizes) -> Layout:
    width, size = sizes.latent_width, sizes.codebook_dim
    layout: Layout = {}
    books = [("semantic_quantizer", 0, sizes.semantic_codes)]
    books += [("quantizer", index, sizes.residual_codes) for index in range(sizes.num_residual)]
    for kind, index, num_codes in books:
        name = f"quantizer.{kind}.quantizers.{index}"
        layout |= affine(f"{name}.in_proj", size, width, 1)
        layout |= affine(f"{name}.out_proj", width, size, 1)
        layout[f"{name}.codebook.weight"] = (num_codes, size)
    for index, factor in enumerate(sizes.factors):
        mirrored = len(sizes.factors) - 1 - index
        for name, kernel in ((f"downsample.{index}", factor), (f"upsample.{mirrored}", factor)):
            layout |= affine(f"quantizer.{name}.0.conv", width, width, kernel)
            layout |= under(f"quantizer.{name}.1", convnext(width))
    for name in ("pre_module", "post_module"):
        layout |= _transformer(f"quantizer.{name}", sizes.frames)
    return layout


def _decoder(sizes: CodecSizes) -> Layout:
    width = sizes.decoder_width
    layout = affine("decoder.model.0.conv", width, sizes.latent_width, _KERNEL)
    for block, rate in enumerate(sizes.rates, start=1):
        name, narrow = f"decoder.model.{block}.block", width // 2
        layout |= _snake(f"{name}.0", width)
        layout |= affine(f"{name}.1.conv", width, narrow, 2 * rate, num_outputs=narrow)
        for unit in range(2, 2 + len(DILATIONS)):
            layout |= _residual_unit(f"{name}.{unit}", narrow)
        width = narrow
    last = len(sizes.rates) + 1
    layout |= _snake(f"decoder.model.{last}", width)
    return layout | affine(f"decoder.model.{last + 1}.conv", 1, width, _KERNEL)
