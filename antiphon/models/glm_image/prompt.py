"""Turns requests for images into prompts: what the prior reads, and what is denoised after it."""

from dataclasses import dataclass, replace

from antiphon.diffusion.image_prompt import ImagePrompt, ImagePrompter
from antiphon.diffusion.tokenizer import load_tokenizer
from antiphon.errors import InvalidRequestError
from antiphon.models.base import Prompt
from antiphon.models.glm_image.checkpoint import read_config
from antiphon.models.glm_image.config import CODE_PIXELS, PROCESSOR_DIRECTORY
from antiphon.models.glm_image.grids import Grid
from antiphon.models.glm_image.options import GlmImageOptions
from antiphon.models.glm_image.prior_request import PriorPrompt
from antiphon.models.spec import ImageCapabilities, LoadContext
from antiphon.types import DiffusionParameters, ImageRequest

MAX_POSITIONS = 8192
"""Of a request: its prompt, and the codes of preview and image."""

MAX_PROMPT_TOKENS = 2048
DEFAULT_SIZE = (1024, 1024)
_DEFAULTS = DiffusionParameters(num_inference_steps=50, guidance_scale=1.5)


@dataclass(frozen=True, slots=True)
class GlmImagePrompt:
    """What all stages read of a request.

    Attributes:
        image: the completed request.
        prior: what the prior reads.
    """

    image: ImagePrompt
    prior: PriorPrompt

    @property
    def guidance(self) -> float | None:
        """How much more than without it the text counts; ``None``: there is no guidance."""
        scale = self.image.parameters.guidance_scale
        return scale if scale is not None and scale > 1.0 else None


class GlmImagePrompter(ImagePrompter):
    """Builds prompts as the official pipeline does."""

    def __init__(self, context: LoadContext) -> None:
        """Load the tokenizer.

        Raises:
            ModelLoadError: the checkpoint cannot be served.
        """
        assert context.path is not None, "the family needs a checkpoint"
        self._config = read_config(context.path)
        self._tokenizer = load_tokenizer(context.path / PROCESSOR_DIRECTORY)
        side = 4 * CODE_PIXELS
        self._capabilities = ImageCapabilities(
            sample_request=ImageRequest(
                "Ready.",
                width=side,
                height=side,
                parameters=DiffusionParameters(num_inference_steps=2),
            ),
            parameters=_DEFAULTS,
            size_multiple=CODE_PIXELS,
            default_size=DEFAULT_SIZE,
            max_prompt_tokens=MAX_PROMPT_TOKENS,
            negative_prompts=False,
        )

    @property
    def capabilities(self) -> ImageCapabilities:
        return self._capabilities

    def count_tokens(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False).input_ids)

    def build(self, request: ImageRequest, seed: int) -> Prompt:
        """Build the prompt of one image; defaults fill what the request leaves open.

        Raises:
            InvalidRequestError: the request is outside what the model can do.
        """
        prompt = super().build(request, seed)
        image: ImagePrompt = prompt.data
        prior = self._prior_prompt(image)
        sampling = GlmImageOptions(**request.options).sampling(self._config.sampling)
        return replace(
            prompt,
            data=GlmImagePrompt(image, prior),
            num_tokens=len(prior.ids),
            sampling=replace(sampling, max_frames=prior.num_codes),
            num_positions=len(prior.ids) - 1,
            position_keys=prior.ids[:-1],
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
        prior = PriorPrompt(self._ids(image.prompt, (grid, preview)), (preview, grid))
        most = min(MAX_POSITIONS, self._config.transformer.max_positions)
        if len(prior.ids) + prior.num_codes > most:
            raise InvalidRequestError(
                f"Invalid 'size': {image.width}x{image.height} takes {prior.num_codes} codes, and"
                f" the prompt {len(prior.ids)} tokens; there is room for {most} in all.",
                param="size",
            )
        return prior

    def _ids(self, text: str, grids: tuple[Grid, ...]) -> tuple[int, ...]:
        """Return the ids of a prompt: the text as a message, then the sizes of the grids."""
        tokenizer = self._tokenizer
        message = {"role": "user", "content": [{"type": "text", "text": text}]}
        rendered: str = tokenizer.apply_chat_template([message], tokenize=False)
        for grid in grids:
            size = f"{grid.height} {grid.width}"
            rendered += f"{tokenizer.grid_bos_token}{size}{tokenizer.grid_eos_token}"
        ids = tokenizer(rendered + tokenizer.bos_token).input_ids
        return tuple(int(each) for each in ids)
