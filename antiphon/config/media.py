"""Settings of the image and video APIs, and of the storage of their outputs."""

from pydantic import Field

from antiphon.config.base import SettingsSection

OPENAI_IMAGE_MODELS = (
    *("gpt-image-1", "gpt-image-1-mini", "gpt-image-1.5", "chatgpt-image-latest"),
    *("dall-e-2", "dall-e-3"),
)
OPENAI_VIDEO_MODELS = ("sora-2", "sora-2-pro")


class ImageSettings(SettingsSection):
    """Limits and defaults of the image API."""

    max_prompt_characters: int = Field(32_000, ge=1, description="Longest prompt.")
    max_images: int = Field(10, ge=1, description="Most images of one request.")
    max_pixels: int = Field(4 * 1024 * 1024, ge=1, description="Most pixels of an image.")
    max_steps: int = Field(200, ge=1, description="Most denoising steps of a request.")
    max_input_bytes: int = Field(
        32 * 1024 * 1024, ge=1, description="Largest image that a request brings or refers to."
    )
    max_input_pixels: int = Field(
        16 * 1024 * 1024, ge=1, description="Most pixels of such an image."
    )
    model_aliases: dict[str, str] = Field(
        default_factory=lambda: dict.fromkeys(OPENAI_IMAGE_MODELS, "default"),
        description="Further names of models; 'default' is the first one that draws.",
    )


class VideoSettings(SettingsSection):
    """Limits and defaults of the video API."""

    max_prompt_characters: int = Field(32_000, ge=1, description="Longest prompt.")
    default_fps: int = Field(24, ge=1, description="Frames a second unless a request sets them.")
    max_fps: int = Field(60, ge=1, description="Most frames a second.")
    max_frames: int = Field(241, ge=1, description="Most frames of a video.")
    max_pixels: int = Field(1920 * 1088, ge=1, description="Most pixels of a frame.")
    max_steps: int = Field(200, ge=1, description="Most denoising steps of a request.")
    max_input_bytes: int = Field(
        32 * 1024 * 1024, ge=1, description="Largest image that a request brings or refers to."
    )
    max_input_pixels: int = Field(
        16 * 1024 * 1024, ge=1, description="Most pixels of such an image."
    )
    model_aliases: dict[str, str] = Field(
        default_factory=lambda: dict.fromkeys(OPENAI_VIDEO_MODELS, "default"),
        description="Further names of models; 'default' is the first one that makes videos.",
    )


class MediaSettings(SettingsSection):
    """Storage of images and videos that clients fetch by URL."""

    output_fs_url: str | None = Field(
        None, description="Where they are kept, as s3://bucket/path; default: a folder of data.dir."
    )
    output_http_url: str | None = Field(
        None,
        description="Address of that place for clients: {base}/{storage path}; default: this"
        " server's own.",
    )
    signed_url_s: int = Field(
        0, ge=0, description="Give addresses that the storage has signed for so long. 0: plain."
    )
    retention_s: float = Field(24 * 3600.0, ge=0, description="What is older is deleted. 0: never.")
    max_gib: float = Field(
        0.0, ge=0, description="Storage that all of it may take. 0: what is free."
    )
