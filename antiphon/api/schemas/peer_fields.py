"""Fields of other servers' speech APIs: which client sends them, and which are not served."""

from collections.abc import Mapping

EVENT_CLIENT_FIELDS = frozenset({"non_streaming_mode", "extra_params", "speaker_embedding"})
"""Only vLLM-Omni has these; its clients read ``"stream": true`` as server-sent events."""

BYTE_CLIENT_FIELDS = frozenset(
    {
        *("lang_code", "volume_multiplier", "normalization_options"),
        *("download_format", "return_download_link", "suppress_bootstrap_silence"),
    }
)
"""Only Kokoro-FastAPI or SGLang-Omni have these; ``"stream": true`` means raw bytes to them."""

NOT_SERVED: Mapping[str, str] = {
    "streaming_mode": "Say how the audio travels with 'stream' and 'stream_format'.",
    "text_input_mode": "Text that streams in goes over the WebSocket /v1/audio/speech/stream.",
    "ref_audio_2": "A request has one voice; send a request for each speaker.",
    "ambient_sound": "No model here makes sounds.",
    "duration_seconds": "Speech takes as long as its text; 'speed' changes that.",
    "duration_tokens": "Speech takes as long as its text; 'max_new_tokens' bounds it.",
    "token_count": "Speech takes as long as its text; 'max_new_tokens' bounds it.",
    "stream_codec_output": "Only audio is sent, no codes.",
    "stage_params": "Sampling parameters stand beside 'input'.",
}
"""Fields that would change the audio or how it travels, and what to do instead."""
