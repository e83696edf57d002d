"""Turns requests for images into prompts: what the prior reads, and what is denoised after it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest
from antiphon.contracts.pictures import ImageCapabilities
from antiphon.contracts.prompt import Encode, Prompt
from antiphon.diffusion.image_prompt import ImagePrompt, ImagePrompter, sample_image
from antiphon.diffusion.tokenizer import load_tokenizer
from antiphon.errors import InvalidRequestError
from antiphon.families.glm_image.checkpoint import read_config
from antiphon.families.glm_image.config import CODE_PIXELS, PROCESSOR_DIRECTORY
from antiphon.families.glm_image.grids import Grid, PriorPrompt, SourceImage
from antiphon.families.glm_image.options import GlmImageOptions
from antiphon.families.glm_image.sources import MAX_SOURCES, SourceSizes

MAX_POSITIONS = 8192
"""Of a request: its prompt, and the codes of preview and image."""

MAX_PROMPT_TOKENS = 2048
DEFAULT_SIZE = (1024, 1024)
_DEFAULTS = DiffusionParameters(num_inference_steps=50, guidance_scale=1.5)


@dataclass(frozen=True, slots=True)
class GlmImagePrompt:
    """Request data of all stages: the completed request, and the prompt of the prior."""

    image: ImagePrompt
    prior: PriorPrompt

    @property
    def guidance(self) -> float | None:
        """Guidance scale; ``None``: there is no guidance."""
        scale = self.image.parameters.guidance_scale
        return scale if scale is not None and scale > 1.0 else None


class GlmImagePrompter(ImagePrompter):
    """Builds prompts as the official pipeline does."""

    def __init__(self, context: LoadContext) -> None:
        """Load the tokenizer; raises ModelLoadError."""
        self._config = read_config(context.checkpoint)
        self._tokenizer = load_tokenizer(context.checkpoint / PROCESSOR_DIRECTORY)
        self._sizes = SourceSizes.read(context.checkpoint / PROCESSOR_DIRECTORY)
        self.capabilities = ImageCapabilities(
            sample_request=sample_image(CODE_PIXELS),
            parameters=_DEFAULTS,
            size_multiple=CODE_PIXELS,
            default_size=DEFAULT_SIZE,
            max_prompt_tokens=MAX_PROMPT_TOKENS,
            max_images=MAX_SOURCES,
            needs_encoder=True,
            negative_prompts=False,
        )

    def use_encoder(self, encode: Encode) -> None:
        """Take what turns images into codes."""
        self._encode = encode

    def choose_size(self, request: ImageRequest) -> tuple[int, int]:
        """Return the size at which the last image of a request is read."""
        if not request.images:
            return DEFAULT_SIZE
        height, width = request.images[-1].shape[:2]
        return self._sizes.of(width, height)

    def count_tokens(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False).input_ids)

    def build(self, request: ImageRequest, seed: int) -> Prompt:
        """Build the prompt of one image; raises InvalidRequestError."""
        prompt = super().build(request, seed)
        image: ImagePrompt = prompt.data
        image = replace(image, images=tuple(map(self._sizes.resized, image.images)))
        prior = self._prior_prompt(image)
        sampling = GlmImageOptions(**request.options).sampling(self._config.sampling)
        return replace(
            prompt,
            data=GlmImagePrompt(image, prior),
            num_tokens=len(prior.ids),
            sampling=replace(sampling, max_frames=prior.num_codes),
            num_positions=len(prior.ids) - 1,
            # Equal ids of images may lie in other grids.
            position_keys=() if image.images else prior.ids[:-1],
        )

    def _prior_prompt(self, image: ImagePrompt) -> PriorPrompt:
        grid = Grid.of(image.width, image.height)
        preview = grid.preview
        if not preview.num_codes:
            raise InvalidRequestError(
                f"Invalid 'size': {image.width}x{image.height}. One side may be at most 255 times"
                " as long as the other.",
                param="size",
            )
        if image.images:
            prior = self._edit_prompt(image, grid)
        else:
            ids = self._ids(image.prompt, (), (grid, preview))
            prior = PriorPrompt(tuple(ids), (preview, grid))
        most = min(MAX_POSITIONS, self._config.transformer.max_positions)
        if len(prior.ids) + prior.num_codes > most:
            raise InvalidRequestError(
                f"Invalid 'size': {image.width}x{image.height} takes {prior.num_codes} codes, and"
                f" the prompt {len(prior.ids)} tokens; there is room for {most} in all.",
                param="size",
            )
        return prior

    def _edit_prompt(self, image: ImagePrompt, grid: Grid) -> PriorPrompt:
        """Return a prompt whose images are codes; no preview is drawn then."""
        shapes = [Grid.of(each.shape[1], each.shape[0]) for each in image.images]
        ids = self._ids(image.prompt, shapes, (grid,))
        mark, sources, place = self._config.image_id, [], 0
        if ids.count(mark) != sum(shape.num_codes for shape in shapes):
            raise InvalidRequestError(
                "Invalid 'prompt': it contains the model's own mark of an image.", param="prompt"
            )
        for shape, pixels in zip(shapes, image.images, strict=True):
            place = ids.index(mark, place)
            ids[place : place + shape.num_codes] = self._encode(pixels).tolist()
            sources.append(SourceImage(shape, place))
            place += shape.num_codes
        return PriorPrompt(tuple(ids), (grid,), tuple(sources))

    def _ids(self, text: str, images: Sequence[Grid], grids: Sequence[Grid]) -> list[int]:
        """Return the ids of a prompt: images and text as a message, then the sizes of grids.

        An image is as many marks as it has codes.
        """
        tokenizer = self._tokenizer
        content = [*({"type": "image"} for _ in images), {"type": "text", "text": text}]
        message = {"role": "user", "content": content}
        rendered: str = tokenizer.apply_chat_template([message], tokenize=False)
        if images:
            mark = tokenizer.image_token
            first, *rest = rendered.split(mark, len(images))
            rendered = first + "".join(
                mark * grid.num_codes + part for grid, part in zip(images, rest, strict=True)
            )
        for grid in grids:
            size = f"{grid.height} {grid.width}"
            rendered += f"{tokenizer.grid_bos_token}{size}{tokenizer.grid_eos_token}"
        ids = tokenizer(rendered + tokenizer.bos_token).input_ids
        return [int(each) for each in ids]
