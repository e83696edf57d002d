"""Identifies a checkpoint by its configuration and its files' headers, without torch."""

from collections.abc import Mapping
from pathlib import Path

from antiphon.contracts.inspection import Inspection
from antiphon.diffusion.inspection import inspect_pipeline
from antiphon.families.wan_video.config import load_config


def inspect(path: Path) -> Inspection:
    """Return the contents of a checkpoint's directory, complete or not."""
    return inspect_pipeline(path, lambda: _told(path))


def _told(path: Path) -> Mapping[str, str | int]:
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
