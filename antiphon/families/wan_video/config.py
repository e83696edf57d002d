"""Configuration of a Wan checkpoint, read from its JSON files; no tensor is read."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from antiphon.contracts.config_file import ConfigSection
from antiphon.contracts.inspection import Inspection
from antiphon.diffusion.inspection import inspect_pipeline
from antiphon.diffusion.model_index import MODEL_INDEX, ModelIndex
from antiphon.families.kit.random_checkpoint import has_drawn_weights

SCHEDULERS = {"UniPCMultistepScheduler": "flow_shift", "FlowMatchEulerDiscreteScheduler": "shift"}
"""Schedulers that can be used, and what their configuration calls the shift of the schedule."""

IMAGE_ENCODERS = ("CLIPVisionModelWithProjection", "CLIPVisionModel")
"""Classes of image encoders; what the projection makes is not read."""

_TOKENIZERS = ("T5Tokenizer", "T5TokenizerFast")
_TRANSFORMER = "WanTransformer3DModel"


@dataclass(frozen=True, slots=True)
class WanTransformerConfig:
    """Sizes of a denoising transformer; ``image_dim`` is 0 without embeddings of an image."""

    in_channels: int
    num_layers: int
    num_attention_heads: int
    attention_head_dim: int
    ffn_dim: int
    text_dim: int
    patch_size: tuple[int, ...]
    image_dim: int = 0

    @property
    def hidden_dim(self) -> int:
        return self.num_attention_heads * self.attention_head_dim

    def num_flops(self, num_positions: int) -> float:
        """Return the floating-point operations of one pass over so many positions."""
        products = num_positions * (6 * self.hidden_dim**2 + 2 * self.hidden_dim * self.ffn_dim)
        attention = 2 * num_positions**2 * self.hidden_dim
        return 2.0 * self.num_layers * (products + attention)


@dataclass(frozen=True, slots=True)
class WanVaeConfig:
    """What a VAE makes of a video: channels, and pixels or frames for each of its positions."""

    z_dim: int
    scale_factor_temporal: int = 4
    scale_factor_spatial: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WanConfig:
    """A checkpoint.

    Attributes:
        architecture: pipeline class of ``model_index.json``.
        transformer: configuration of each expert; the experts of a checkpoint have equal sizes.
        scheduler: class of the scheduler in diffusers.
        tokenizer: class of the tokenizer in transformers.
        flow_shift: default shift of the noise schedule; a setting or a request may replace it.
        boundary_ratio: share of the schedule at which the second expert takes over; ``None``: there
            is one expert.
        expand_timesteps: whether each position has a timestep of its own (TI2V-5B).
    """

    path: Path
    architecture: str
    transformer: WanTransformerConfig
    vae: WanVaeConfig
    scheduler: str
    tokenizer: str
    flow_shift: float
    num_train_timesteps: int
    boundary_ratio: float | None
    expand_timesteps: bool

    @property
    def num_experts(self) -> int:
        return 1 if self.boundary_ratio is None else 2

    @property
    def needs_image(self) -> bool:
        """Whether the first frame is an input of the transformer, beside the noise."""
        return self.transformer.in_channels > self.vae.z_dim

    @property
    def takes_image(self) -> bool:
        return self.needs_image or self.expand_timesteps

    @property
    def size_multiple(self) -> int:
        """Of width and height, in pixels: diffusers asks for 16 at least."""
        patch = math.lcm(*self.transformer.patch_size[1:])
        return math.lcm(16, self.vae.scale_factor_spatial * patch)

    @property
    def layout(self) -> str:
        """Size name of the checkpoint, as in the names of the published ones."""
        if self.expand_timesteps:
            return "ti2v-2.2-5b"
        if self.transformer.image_dim:
            return "i2v-2.1"
        kind = "i2v" if self.needs_image else "t2v"
        return f"{kind}-2.2-a14b" if self.num_experts == 2 else f"{kind}-2.1"

    def latent_shape(self, width: int, height: int, num_frames: int) -> tuple[int, int, int, int]:
        """Return ``(channels, frames, height, width)`` of the latents of a video."""
        scale = self.vae.scale_factor_spatial
        latent_frames = (num_frames - 1) // self.vae.scale_factor_temporal + 1
        return self.vae.z_dim, latent_frames, height // scale, width // scale

    def num_positions(self, width: int, height: int, num_frames: int) -> int:
        """Return the positions of the transformer for a video."""
        _, *sizes = self.latent_shape(width, height, num_frames)
        patches = zip(sizes, self.transformer.patch_size, strict=True)
        return math.prod(size // patch for size, patch in patches)


def load_config(path: Path) -> WanConfig:
    """Read the configuration of a checkpoint's directory; raises ModelLoadError."""
    index = ModelIndex.read(path)
    index.check("text_encoder", "UMT5EncoderModel")
    index.check("vae", "AutoencoderKLWan")
    scheduler = index.check("scheduler", *SCHEDULERS)
    schedule, settings = index.config("scheduler"), _settings(index)
    config = WanConfig(
        path=path,
        architecture=index.pipeline,
        transformer=_transformer(index, "transformer"),
        vae=index.config("vae").build(WanVaeConfig),
        scheduler=scheduler,
        tokenizer=index.check("tokenizer", *_TOKENIZERS),
        flow_shift=schedule.number(SCHEDULERS[scheduler], 1.0),
        num_train_timesteps=schedule.integer("num_train_timesteps", 1000),
        boundary_ratio=_boundary_ratio(settings),
        expand_timesteps=settings.boolean("expand_timesteps", False),
    )
    _check(config, index)
    return config


def _transformer(index: ModelIndex, name: str) -> WanTransformerConfig:
    index.check(name, _TRANSFORMER)
    section = index.config(name)
    image_dim = 0 if section.values.get("image_dim") is None else section.integer("image_dim")
    config = section.build(WanTransformerConfig, image_dim=image_dim)
    if len(config.patch_size) != 3:
        raise section.error("patch_size", "must have three numbers: frames, height, width")
    section.expect("pos_embed_seq_len", None)  # of models that want the last frame too
    return config


def _settings(index: ModelIndex) -> ConfigSection:
    return ConfigSection(index.path / MODEL_INDEX, "", index.settings)


def _boundary_ratio(settings: ConfigSection) -> float | None:
    ratio = settings.values.get("boundary_ratio")
    is_number = isinstance(ratio, int | float) and not isinstance(ratio, bool)
    if ratio is not None and not (is_number and 0 <= ratio <= 1):
        raise settings.error("boundary_ratio", f"must be 0 to 1, but is {ratio!r}")
    return None if ratio is None else float(ratio)


def _check(config: WanConfig, index: ModelIndex) -> None:
    if config.transformer.image_dim:
        index.check("image_encoder", *IMAGE_ENCODERS)
        index.check("image_processor")
    z_dim, in_channels = config.vae.z_dim, config.transformer.in_channels
    with_condition = 2 * z_dim + config.vae.scale_factor_temporal  # noise, mask, first frame
    if in_channels not in (z_dim, with_condition):
        message = f"is {in_channels}; with this VAE it must be {z_dim} or {with_condition}"
        raise index.config("transformer").error("in_channels", message)
    has_second, settings = "transformer_2" in index.components, _settings(index)
    if has_second is not (config.boundary_ratio is not None):
        message = "must be there with 'transformer_2', and only then"
        raise settings.error("boundary_ratio", message)
    if has_second and _transformer(index, "transformer_2") != config.transformer:
        raise settings.error("transformer_2", "has other sizes than 'transformer'")


def inspect(path: Path) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not."""
    return inspect_pipeline(path, _facts, is_drawn=has_drawn_weights(path))


def _facts(path: Path) -> Mapping[str, str | int]:
    config = load_config(path)
    image = "needed" if config.needs_image else "taken" if config.takes_image else "not taken"
    facts: dict[str, str | int] = {
        "Layout": config.layout,
        "Experts": config.num_experts,
        "First frame": image,
        "Size": f"multiples of {config.size_multiple} pixels",
        "Frames": f"multiples of {config.vae.scale_factor_temporal}, plus 1",
        "Flow shift": f"{config.flow_shift:g}",
    }
    if config.boundary_ratio is not None:
        facts["Boundary ratio"] = f"{config.boundary_ratio:g}"
    return facts
