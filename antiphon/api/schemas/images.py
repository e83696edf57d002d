"""Bodies and answers of the image API: OpenAI's, with the parameters of vLLM-Omni and Dynamo."""

from dataclasses import replace
from typing import Literal, Self

from pydantic import BaseModel, Field, model_validator

from antiphon.api.schemas.picture_fields import ImagePeerFields
from antiphon.api.schemas.pictures import PictureBody
from antiphon.contracts.picture_types import ImageRequest
from antiphon.contracts.types import Usage, new_seed
from antiphon.errors import InvalidRequestError, invalid
from antiphon.media.image_codec import ImageFormat
from antiphon.pipeline.pictures.images import MAX_PREVIEWS, MAX_SEED

Quality = Literal["auto", "low", "medium", "high", "standard", "hd"]
Background = Literal["auto", "opaque", "transparent"]


class ImageBody(ImagePeerFields, PictureBody):
    """A prompt and how to draw it, how often, and in which form the images are answered."""

    n: int = Field(1, ge=1, description="Images; of seeds that follow each other.")
    quality: Quality = Field(
        "auto", description="low: half the steps; all others: the model's own number of steps."
    )
    response_format: Literal["b64_json", "url"] = Field(
        "b64_json", description="The image itself, or an address of it."
    )
    output_format: ImageFormat = Field(ImageFormat.PNG, description="Of the file.")
    output_compression: int | None = Field(
        None, ge=0, le=100, description="Quality of JPEG and WebP files, in percent."
    )
    background: Background = Field(
        "auto", description="opaque: on white; transparent: only of models that draw so."
    )
    stream: bool = Field(False, description="Server-sent events.")
    partial_images: int = Field(
        0, ge=0, le=MAX_PREVIEWS, description="Images to be sent while it forms, with stream."
    )
    moderation: Literal["auto", "low"] | None = Field(
        None, description="Accepted; it means nothing here."
    )
    style: str | None = Field(None, description="Accepted; it means nothing here.")
    input_fidelity: str | None = Field(None, description="Accepted; it means nothing here.")

    @model_validator(mode="after")
    def _checked(self) -> Self:
        compression = self.output_compression
        if not self.output_format.is_lossy and compression not in (None, 100):
            raise invalid(
                "output_compression",
                f"{compression}. PNG is lossless: leave it out, or ask for 'output_format': 'jpeg'"
                " or 'webp'",
            )
        if self.background == "transparent" and not self.output_format.has_alpha:
            raise invalid(
                "background",
                "a JPEG file cannot be transparent. Ask for 'output_format': 'png' or 'webp'",
            )
        if self.partial_images and not self.stream:
            raise InvalidRequestError(
                "'partial_images' needs 'stream': true.", param="partial_images"
            )
        return self

    def to_domain(self, request_id: str, max_images: int) -> tuple[ImageRequest, ...]:
        """Return the requests of all images, with successive seeds; raises InvalidRequestError.

        Args:
            request_id: must be unique: the engine's keys of the requests begin with it.
        """
        if self.n > max_images:
            raise invalid("n", f"{self.n}. It must be at most {max_images}")
        width, height = self.width_and_height
        seed = new_seed() if self.domain_seed is None else self.domain_seed
        request = ImageRequest(
            prompt=self.prompt,
            negative_prompt=self.negative_prompt,
            model=self.model,
            width=width,
            height=height,
            num_previews=self.partial_images,
            parameters=self.parameters(),
        )
        return tuple(
            replace(request, id=f"{request_id}-{number}", seed=(seed + number) & MAX_SEED)
            for number in range(self.n)
        )


class ImageUsage(BaseModel):
    """What the images cost."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens_details: dict[str, int]

    @classmethod
    def of(cls, usage: Usage) -> Self:
        """Return the usage in OpenAI's shape."""
        return cls(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            total_tokens=usage.total_tokens,
            input_tokens_details={"text_tokens": usage.input_tokens, "image_tokens": 0},
            output_tokens_details={"text_tokens": 0, "image_tokens": usage.output_tokens},
        )


class DrawnImage(BaseModel):
    """An image of an answer: itself, or its address."""

    b64_json: str | None = None
    url: str | None = None
    revised_prompt: str | None = None
    seed: int


class ImagesAnswer(BaseModel):
    """The answer to a request for images."""

    created: int
    data: list[DrawnImage]
    background: Literal["opaque", "transparent"]
    output_format: ImageFormat
    quality: Quality
    size: str
    usage: ImageUsage
