"""The toy's videos: images whose letters move on by one from frame to frame."""

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import VideoRequest
from antiphon.contracts.pictures import VideoCapabilities
from antiphon.contracts.prompt import Prompt
from antiphon.families.toy.picture import MAX_LETTERS, PARAMETERS, PATCH, ToyPicture, check_letters


class ToyVideoPrompter:
    """Builds prompts of letters."""

    capabilities = VideoCapabilities(
        sample_request=VideoRequest("ready", num_frames=5),
        parameters=PARAMETERS,
        size_multiple=PATCH,
        default_size=(64, 64),
        max_prompt_tokens=MAX_LETTERS,
        default_num_frames=9,
        takes_image=True,
    )

    def __init__(self, context: LoadContext) -> None:
        """Nothing to load."""

    def build(self, request: VideoRequest, seed: int) -> Prompt:
        """Build the prompt of one video; raises InvalidRequestError if a text is too long."""
        check_letters(request)
        width, height = self.capabilities.default_size
        picture = ToyPicture(
            prompt=request.prompt,
            negative_prompt=request.negative_prompt or "",
            width=request.width or width,
            height=request.height or height,
            num_frames=request.num_frames or self.capabilities.default_num_frames,
            fps=request.fps,
            parameters=request.parameters.with_defaults(PARAMETERS),
            images=() if request.image is None else (request.image,),
        )
        return Prompt(data=picture, num_tokens=len(request.prompt), seed=seed)
