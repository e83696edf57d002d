"""Members of OpenAI's realtime messages that are the same for speech and for agents."""

from typing import Annotated, Any, Literal

from antiphon.api.schemas.field_rules import KnownMembers, Meaningless, Unserved

_NO_INPUT = Meaningless("No audio is read, so that settings of it have no effect.")
_OF_SERVER = Meaningless("The server reports it; it cannot be set.")
_OF_TOOLS = Meaningless("Items of tools are refused, or are not spoken.")


class RealtimeMessage(KnownMembers):
    """A message of a client."""

    event_id: str | None = None


class InputAudio(KnownMembers):
    """Settings of audio that a client would send."""

    format: Annotated[Any, _NO_INPUT] = None
    noise_reduction: Annotated[Any, _NO_INPUT] = None
    transcription: Annotated[Any, _NO_INPUT] = None
    turn_detection: Annotated[Any, _NO_INPUT] = None


class RealtimeOptions(KnownMembers):
    """Members of sessions and of responses that have no effect, or are refused."""

    parallel_tool_calls: Annotated[bool | None, Meaningless("No model here calls tools.")] = None
    prompt: Annotated[Any, Unserved("No prompts are kept here: send 'instructions'.")] = None
    reasoning: Annotated[Any, Unserved("An agent thinks as its model does.")] = None


class SessionOptions(RealtimeOptions):
    """Members of sessions alone, those of the protocol's first edition among them."""

    type: Literal["realtime"] = "realtime"
    model: str | None = None
    include: Annotated[list[str] | None, _NO_INPUT] = None
    tracing: Annotated[Any, Meaningless("Requests are traced by the server's settings.")] = None
    truncation: Annotated[
        Any, Unserved("A conversation has to fit the model's context.", ("auto", "disabled"))
    ] = None
    input_audio_format: Annotated[Any, _NO_INPUT] = None
    input_audio_noise_reduction: Annotated[Any, _NO_INPUT] = None
    input_audio_transcription: Annotated[Any, _NO_INPUT] = None
    turn_detection: Annotated[Any, _NO_INPUT] = None
    id: Annotated[str | None, _OF_SERVER] = None
    object: Annotated[str | None, _OF_SERVER] = None
    expires_at: Annotated[int | None, _OF_SERVER] = None
    client_secret: Annotated[Any, _OF_SERVER] = None


class RealtimeItem(KnownMembers):
    """Members of an item that are not read."""

    object: Annotated[str | None, Meaningless("All items are of the same kind.")] = None
    status: Annotated[str | None, Meaningless("Items of a client are complete.")] = None
    name: Annotated[Any, _OF_TOOLS] = None
    call_id: Annotated[Any, _OF_TOOLS] = None
    arguments: Annotated[Any, _OF_TOOLS] = None
    output: Annotated[Any, _OF_TOOLS] = None
