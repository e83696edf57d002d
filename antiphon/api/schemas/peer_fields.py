"""Speech fields of other servers: how they are treated, and which clients send them."""

from typing import Annotated, Any

from antiphon.api.schemas.field_rules import KnownMembers, Meaningless, Unserved
from antiphon.contracts.well_formed import StrictModel
from antiphon.formats import AudioFormat

EVENT_CLIENT_FIELDS = frozenset({"non_streaming_mode", "extra_params", "speaker_embedding"})
"""Only vLLM-Omni has these; its clients read ``"stream": true`` as server-sent events."""

BYTE_CLIENT_FIELDS = frozenset(
    {
        *("lang_code", "volume_multiplier", "normalization_options"),
        *("download_format", "return_download_link", "suppress_bootstrap_silence"),
    }
)
"""Only Kokoro-FastAPI or SGLang-Omni have these; ``"stream": true`` means raw bytes to them."""

_BY_TEXT = "Speech takes as long as its text; 'speed' changes that."
_BY_LIMIT = "Speech takes as long as its text; 'max_new_tokens' bounds it."
_ONE_VOICE = "A request has one voice; send a request for each speaker."
_RECORDING = "Send the recording in 'ref_audio', to a model that clones voices."
_AS_WHOLE = "Set 'normalization_options.normalize' alone."


class SpeechPeerFields(StrictModel):
    """Fields of vLLM-Omni, SGLang-Omni and Kokoro-FastAPI that no model here serves.

    One declaration for requests, batches, jobs and sessions of WebSockets.
    """

    text_input_mode: Annotated[
        Any,
        Unserved(
            "Text that streams in goes over the WebSocket /v1/audio/speech/stream.", ("buffered",)
        ),
    ] = None
    streaming_mode: Annotated[
        Any,
        Unserved(
            "'stream' and 'stream_format' select how the audio is streamed.", ("token_level",)
        ),
    ] = None
    ref_audio_2: Annotated[Any, Unserved(_ONE_VOICE)] = None
    speakers: Annotated[Any, Unserved(_ONE_VOICE)] = None
    ref_audio_codes: Annotated[Any, Unserved(_RECORDING)] = None
    reference_audio: Annotated[Any, Unserved(_RECORDING)] = None
    speaker_audio: Annotated[Any, Unserved(_RECORDING)] = None
    voice_prompt: Annotated[Any, Unserved(_RECORDING)] = None
    messages: Annotated[Any, Unserved("Send the text in 'input'.")] = None
    ambient_sound: Annotated[Any, Unserved("No model here makes sounds.")] = None
    duration_seconds: Annotated[Any, Unserved(_BY_TEXT, (0,))] = None
    duration_tokens: Annotated[Any, Unserved(_BY_LIMIT, (0,))] = None
    token_count: Annotated[Any, Unserved(_BY_LIMIT, (0,))] = None
    stream_codec_output: Annotated[Any, Unserved("Only audio is sent, no codes.", (False,))] = None
    stage_params: Annotated[Any, Unserved("Send sampling parameters beside 'input'.")] = None
    suppress_bootstrap_silence: Annotated[
        bool | None, Meaningless("No audio begins with silence that a codec needs to start.")
    ] = None
    download_format: Annotated[
        AudioFormat | None,
        Meaningless("No download links are made, so that none has a format."),
    ] = None
    return_download_link: Annotated[
        Any, Unserved("The audio is the answer; for long texts, create a job.", (False,))
    ] = None
    return_timing: Annotated[
        Any, Unserved("Set 'word_timestamps' for the times of words.", (False,))
    ] = None
    ssml: Annotated[
        Any, Unserved("Write pauses and rates as tags such as [pause:1s].", (False,))
    ] = None
    voice_aliases: Annotated[
        Any, Unserved("Aliases are the server's setting 'speech.voice_aliases'.")
    ] = None


class NormalizationOptions(KnownMembers):
    """Kokoro-FastAPI's options; only all of them together can be turned on or off."""

    normalize: bool = True
    unit_normalization: Annotated[Any, Unserved(_AS_WHOLE, (False, True))] = None
    url_normalization: Annotated[Any, Unserved(_AS_WHOLE, (True,))] = None
    email_normalization: Annotated[Any, Unserved(_AS_WHOLE, (True,))] = None
    optional_pluralization_normalization: Annotated[Any, Unserved(_AS_WHOLE, (True,))] = None
    phone_normalization: Annotated[Any, Unserved(_AS_WHOLE, (True,))] = None
    replace_remaining_symbols: Annotated[Any, Unserved(_AS_WHOLE, (True,))] = None


CLONING_FIELDS = {
    "ref_audio": Unserved("This model clones no voices."),
    "speaker_embedding": Unserved("This model clones no voices."),
    "references": Unserved("This model clones no voices."),
    "x_vector_only_mode": Unserved("This model clones no voices from vectors.", (False,)),
    "subtalker_dosample": Unserved("This model draws the codes of a frame at once.", (True,)),
}
"""Fields that only some models serve, as they are treated by the others."""
