"""Fields of images and videos of OpenAI, vLLM-Omni and Dynamo that no model here serves."""

from typing import Annotated, Any

from antiphon.api.schemas.field_rules import Meaningless, Unserved
from antiphon.contracts.well_formed import StrictModel

_ONE_IMAGE = Unserved("Send one image, in 'input_reference'.")
_NO_SOUND = "Videos have no sound."
_NO_FRAMES_BETWEEN = Meaningless("No frames are interpolated.")
_DECODED_BY_SERVER = Meaningless("The server decides how images are decoded.")
_NOT_ANIMATED = Unserved("Images are not animated.")
_IN_PROMPT = Unserved("Put everything into 'prompt'.")


class PicturePeerFields(StrictModel):
    """Fields that are accepted without effect, or only with a value that turns them off."""

    lora: Annotated[Any, Unserved("No adapters are loaded here.")] = None
    layers: Annotated[Any, Unserved("Images have one layer.", (1,))] = None
    strength: Annotated[Any, Unserved("The model decides how much of an image it changes.")] = None
    system_prompt: Annotated[Any, _IN_PROMPT] = None
    use_system_prompt: Annotated[Any, _IN_PROMPT] = None
    bot_task: Annotated[Any, _IN_PROMPT] = None
    generator_device: Annotated[
        str | None, Meaningless("A seed draws the same on every device.")
    ] = None
    vae_use_slicing: Annotated[bool | None, _DECODED_BY_SERVER] = None
    vae_use_tiling: Annotated[bool | None, _DECODED_BY_SERVER] = None
    return_stage_metrics: Annotated[
        bool | None, Meaningless("Figures of stages are at /metrics.")
    ] = None
    annotations: Annotated[
        list[str] | None, Meaningless("Answers have no annotations of Dynamo's front end.")
    ] = None
    safety_identifier: Annotated[str | None, Meaningless("No moderation service is called.")] = None


class ImagePeerFields(PicturePeerFields):
    """Those of images."""

    infer_align_image_size: Annotated[
        Any, Unserved("Set 'size' for the size of the image.", (False,))
    ] = None
    resolution: Annotated[Any, Unserved("Set 'size' for the size of the image.")] = None
    complexity: Annotated[Any, Unserved("Set 'quality' or 'num_inference_steps'.")] = None
    frame_count: Annotated[Any, _NOT_ANIMATED] = None
    frame_duration_ms: Annotated[Any, _NOT_ANIMATED] = None
    svg: Annotated[Any, Unserved("Images are PNG, JPEG or WebP.")] = None
    markup: Annotated[Any, Unserved("Send the part that may change as 'mask'.")] = None


class VideoPeerFields(PicturePeerFields):
    """Those of videos."""

    input_references: Annotated[Any, _ONE_IMAGE] = None
    video_reference: Annotated[Any, _ONE_IMAGE] = None
    audio_reference: Annotated[Any, Unserved(_NO_SOUND)] = None
    generate_sound: Annotated[Any, Unserved(_NO_SOUND, (False,))] = None
    sound_duration: Annotated[Any, Unserved(_NO_SOUND)] = None
    enable_frame_interpolation: Annotated[
        Any, Unserved("Set 'fps' and 'num_frames' for frames of the model.", (False,))
    ] = None
    frame_interpolation_exp: Annotated[int | None, _NO_FRAMES_BETWEEN] = None
    frame_interpolation_scale: Annotated[float | None, _NO_FRAMES_BETWEEN] = None
    frame_interpolation_model_path: Annotated[str | None, _NO_FRAMES_BETWEEN] = None
    preencode_mp4: Annotated[
        bool | None, Meaningless("A video is encoded where its request is answered.")
    ] = None
    video_codec_options: Annotated[Any, Unserved("Videos are encoded with fixed settings.")] = None
