"""All settings and their defaults in one frozen tree; `antiphon.config.sources` reads them."""

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, field_validator, model_validator

from antiphon.config.base import SettingsSection
from antiphon.config.chat import ChatSettings, SpeakableSettings
from antiphon.config.data import DataSettings as DataSettings
from antiphon.config.data import JobSettings as JobSettings
from antiphon.config.diffusion import DiffusionSettings
from antiphon.config.media import ImageSettings, MediaSettings, VideoSettings
from antiphon.formats import AudioFormat

OPENAI_VOICES = (
    *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable"),
    *("marin", "nova", "onyx", "sage", "shimmer", "verse"),
)
OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
PEER_MODELS = ("kokoro",)
MIN_LUFS, MAX_LUFS = -40.0, -9.0
"""Bounds of the target loudness."""

LoadFormat: TypeAlias = Literal["auto", "dummy"]


class ModelSettings(SettingsSection):
    """Model, device and scheduling."""

    source: str | None = Field(
        None,
        description="A built-in model, a checkpoint's directory, or its ORG/NAME on the hub;"
        " default: the small voice.",
    )
    name: str | None = Field(None, description="Served name; default: last part of the source.")
    device: str = Field("auto", description="cpu, cuda, cuda:N or auto.")
    decoder_device: str | None = Field(
        None, description="Of the codec, apart from the model; default: they share device and step."
    )
    dtype: Literal["auto", "bfloat16", "float32"] = Field(
        "auto", description="What the weights are computed in."
    )
    load_format: LoadFormat = Field(
        "auto", description="auto reads the checkpoint's weights, dummy draws random ones."
    )
    quantize: str | None = Field(
        None, description="Type of the weights of products, int8 or fp16; default: dtype."
    )
    cpu_threads: int | None = Field(
        None, ge=1, description="Threads of PyTorch on a CPU; default: all cores but one."
    )
    max_slots: int = Field(
        64, ge=1, description="Requests that a stage works on, or listeners it speaks to, at once."
    )
    cache_gib: float | None = Field(
        None, gt=0, description="Memory for keys and values; default: what is left of the GPU's."
    )
    gpu_memory_utilization: float | None = Field(
        0.9, gt=0, le=1, description="Share of a GPU's memory that may be in use."
    )
    deterministic: bool = Field(
        False, description="On a GPU too, make a request's audio independent of its batch."
    )
    trust_remote_code: bool = Field(
        False, description="Run Python code that the checkpoint brings; such models need it."
    )
    max_waiting: int = Field(256, ge=0, description="Listeners who may wait for a slot.")
    max_wait_s: float = Field(
        2.0, ge=0, description="Longest predicted wait for a slot or first sound; beyond it: 429."
    )
    max_load: float = Field(
        0.85, gt=0, le=1, description="Share of real time that all streams together may need."
    )
    initial_codec_chunk_frames: int = Field(
        1, ge=1, description="Frames of a stream's first chunk of audio, if no gap follows it."
    )
    codec_chunk_frames: int | None = Field(
        None, ge=1, description="Most frames of a chunk; default: the codec's largest."
    )
    codec_chunk_growth: int = Field(
        4, ge=2, description="How many times as large as the one before a chunk may be."
    )

    @model_validator(mode="before")
    @classmethod
    def _split_source(cls, value: Any) -> Any:
        """Split a source of the form ``NAME=SOURCE``.

        A directory may have "=" in its name: an existing path is not split.
        """
        source = value.get("source") if isinstance(value, dict) else None
        if not isinstance(source, str) or Path(source).expanduser().exists():
            return value
        name, is_named, rest = source.partition("=")
        if not (is_named and name and rest) or "/" in name or value.get("name") is not None:
            return value
        return {**value, "source": rest, "name": name}


def _named_source(value: Any) -> Any:
    """Convert ``SOURCE`` or ``NAME=SOURCE`` to a table."""
    return {"source": value} if isinstance(value, str) else value


class ModelsSettings(SettingsSection):
    """Further models of the server, and limits of loaded models."""

    more: tuple[Annotated[ModelSettings, BeforeValidator(_named_source)], ...] = Field(
        (), description="SOURCE or NAME=SOURCE each, or a table like [model]'s in a file."
    )
    lazy: bool = Field(False, description="Load a model when it is first asked for.")
    max_loaded: int = Field(
        0, ge=0, description="Most models in memory; the one idle for longest makes room. 0: all."
    )
    max_gib: float = Field(
        0.0, ge=0, description="Most memory of the loaded models, as estimated. 0: no limit."
    )
    idle_s: float = Field(
        0.0, ge=0, description="A model that is idle for longer leaves the memory. 0: never."
    )
    wait_s: float = Field(
        30.0, ge=0, description="Requests wait this long for a model to be loaded, then get 503."
    )

    @property
    def unloads(self) -> bool:
        """Whether loaded models may be unloaded."""
        return bool(self.max_loaded or self.max_gib or self.idle_s)


class SpeechSettings(SettingsSection):
    """Limits and defaults of the speech API."""

    max_input_characters: int = Field(
        100_000, ge=1, description="Longest text of one request; long text is split."
    )
    voice_aliases: dict[str, str] = Field(
        default_factory=lambda: dict.fromkeys(OPENAI_VOICES, "default"),
        description="Further names of voices; 'default' is the model's first voice.",
    )
    model_aliases: dict[str, str] = Field(
        default_factory=lambda: dict.fromkeys((*OPENAI_MODELS, *PEER_MODELS), "default"),
        description="Further names of models; 'default' is the served model.",
    )
    pronunciations: dict[str, str] = Field(
        default_factory=dict, description="What is read instead of words, as SQL = 'sequel'."
    )
    max_batch_items: int = Field(32, ge=1, description="Most texts of one batch.")
    default_response_format: AudioFormat = Field(
        AudioFormat.MP3, description="Format of files whose requests name none, in batches too."
    )
    default_voice: str | None = Field(
        None, description="Voice of requests that name none; default: the model's first."
    )
    stream_means: Literal["sse", "audio"] = Field(
        "sse", description='What "stream": true gives if neither stream_format nor Accept decides.'
    )
    loudness_lufs: Annotated[float, Field(ge=MIN_LUFS, le=MAX_LUFS)] | Literal["off"] = Field(
        -18.0,
        description="Loudness of voices of known loudness, in LUFS; off: as the model speaks.",
    )
    sentence_pause_ms: int | None = Field(
        None, ge=0, le=5000, description="Silence between sentences; default: the model's."
    )
    unknown_fields: Literal["tell", "refuse"] = Field(
        "tell", description="List unknown fields of requests in a header, or refuse them."
    )

    @property
    def all_voice_aliases(self) -> dict[str, str]:
        """Aliases of voices, including ``default`` itself if there is a default voice."""
        default = {} if self.default_voice is None else {"default": self.default_voice}
        return {**self.voice_aliases, **default}


class ReferenceSettings(SettingsSection):
    """Permitted origins of recordings and images that requests refer to."""

    allow_urls: bool = Field(
        False, description="Fetch what requests refer to from http(s) addresses."
    )
    allowed_hosts: tuple[str, ...] = Field(
        (), description="Hosts to fetch from, 'example.com' or '*.example.com'; none: any host."
    )
    allowed_networks: tuple[IPv4Network | IPv6Network, ...] = Field(
        (), description="Networks to fetch from besides the public internet, as 10.1.0.0/16."
    )
    allowed_media_path: Path | None = Field(
        None, description="Directory whose files may be named as file:///path; none: no files."
    )
    max_bytes: int = Field(10 * 1024 * 1024, ge=1, description="Largest recording.")
    timeout_s: float = Field(10.0, gt=0, description="For a fetch from beginning to end.")
    min_duration_s: float = Field(1.0, ge=0)
    max_duration_s: float = Field(30.0, gt=0)


class ServerSettings(SettingsSection):
    host: str = Field(
        "127.0.0.1", description="Address to listen on; :: is every one, 0.0.0.0 every one of IPv4."
    )
    port: int = Field(8000, ge=0, le=65535, description="0 picks a free one.")
    api_keys: tuple[str, ...] = Field(
        (), description="Accepted keys, or their hashes as sha256:HEX; none: no key is asked."
    )
    api_keys_file: Path | None = Field(
        None, description="File of further keys or hashes, one a line; # begins a comment."
    )
    url_signing_key: Annotated[str, Field(min_length=32)] | None = Field(
        None, description="Signs URLs of speech for players without keys; default: none are signed."
    )
    allow_no_key: bool = Field(
        False, description="Ask for no key although other machines can reach the server."
    )
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="Names by which clients may call the server, as speech.example or *.example;"
        " default: any with keys, else those of one's own network.",
    )
    cors_origins: tuple[str, ...] = Field(
        (),
        description="Origins of pages that may call, * for all;"
        " default: all with keys, else those of one's own network.",
    )
    max_body_bytes: int = Field(
        16 * 1024 * 1024, ge=1024, description="Larger requests are refused."
    )
    max_idle_s: float = Field(
        300.0, gt=0, description="WebSockets that are silent for longer are closed."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least serious event that is logged."
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="json: one object a line, with a line for each request."
    )
    output_modalities: tuple[Literal["audio", "image", "video", "text"], ...] = Field(
        (), description="What is served; default: all that the models can make."
    )
    traces: bool = Field(False, description="Make OpenTelemetry spans, if that is installed.")
    fabric: Literal["local", "process", "ray"] = Field(
        "local", description="Where stages run: in this process, in others of this host, or on Ray."
    )
    ray_address: str | None = Field(
        None,
        description="Of the Ray cluster, HOST:PORT or auto; default: RAY_ADDRESS, that of this"
        " host, or a new one.",
    )
    ray_namespace: str = Field(
        "antiphon", description="Servers of one Ray cluster share stages if they share this."
    )
    ray_place_s: float = Field(
        120.0, gt=0, description="A start fails if Ray has no room for a replica for longer."
    )
    cluster_tls: Path | None = Field(
        None,
        description="Folder of cert.pem, key.pem and ca.pem, on every host of a Ray cluster: TLS"
        " between its processes.",
    )
    front_ends: int = Field(
        0, ge=0, description="HTTP processes that share the port. 0: one, which is the server."
    )
    placement: tuple[str, ...] = Field(
        (), description="Profiles or YAML files with the placement of stages; later ones win."
    )
    placement_set: tuple[str, ...] = Field(
        (), description="Single entries of the placement, as stage.talker.replicas=2."
    )
    stage_configs: Path | None = Field(
        None, description="A file of vLLM-Omni's stage configs, instead of a placement."
    )

    @field_validator("output_modalities", mode="before")
    @classmethod
    def _split_at_commas(cls, names: Any) -> Any:
        if isinstance(names, str):
            names = (names,)
        return tuple(part.strip() for name in names for part in str(name).split(","))

    @field_validator("api_keys")
    @classmethod
    def _no_key_is_empty(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        if not all(key.strip() for key in keys):
            raise ValueError("a key is empty; leave it out if no key is to be asked for")
        return keys


class LimitSettings(SettingsSection):
    """Limits of concurrency and memory, and timeouts."""

    max_requests: int = Field(
        1000,
        ge=1,
        description="HTTP requests under way at once; default: more where models serve more.",
    )
    max_sockets: int = Field(1000, ge=0, description="WebSockets at once; default as max_requests.")
    caller_places: int = Field(
        500, ge=1, description="Of each of these two, how many one key or address may hold."
    )
    max_memory_mib: int = Field(
        1024,
        ge=0,
        description="Memory that bodies and whole answers of all requests hold. 0: no limit.",
    )
    caller_memory_mib: int = Field(
        256, ge=0, description="The same of one key or address. 0: no limit."
    )
    max_idle_connections: int = Field(
        2000, ge=16, description="Connections without a request; of more, the oldest is cut."
    )
    idle_connections_per_address: int = Field(
        1000, ge=16, description="Such connections of one address; of more, its oldest is cut."
    )
    key_concurrency: int = Field(
        0, ge=0, description="Requests and WebSockets of one key at once. 0: no limit."
    )
    key_requests_per_minute: int = Field(
        0, ge=0, description="Requests and WebSockets of one key in a minute. 0: no limit."
    )
    key_failures_per_minute: int = Field(
        30, ge=0, description="Wrong keys of one address in a minute. 0: no limit."
    )
    header_timeout_s: float = Field(
        10.0, gt=0, description="Connections whose headers take longer are closed."
    )
    write_timeout_s: float = Field(
        30.0, gt=0, description="Clients that read nothing of what waits for so long are cut."
    )
    body_timeout_s: float = Field(
        30.0, gt=0, description="Time for a body, and a second more for each 10 kB of it."
    )
    grace_s: float = Field(
        30.0, ge=0, description="How long streams under way may go on after SIGTERM."
    )
    exit_unhealthy_s: float = Field(
        0.0, ge=0, description="End the process if it is unhealthy for longer. 0: never."
    )
    stall_s: float = Field(
        120.0, gt=0, description="A model whose step takes longer makes /health fail."
    )


class Settings(SettingsSection):
    model: ModelSettings = ModelSettings()
    models: ModelsSettings = ModelsSettings()
    speech: SpeechSettings = SpeechSettings()
    chat: ChatSettings = ChatSettings()
    speakable: SpeakableSettings = SpeakableSettings()
    references: ReferenceSettings = ReferenceSettings()
    data: DataSettings = DataSettings()
    diffusion: DiffusionSettings = DiffusionSettings()
    images: ImageSettings = ImageSettings()
    videos: VideoSettings = VideoSettings()
    media: MediaSettings = MediaSettings()
    jobs: JobSettings = JobSettings()
    server: ServerSettings = ServerSettings()
    limits: LimitSettings = LimitSettings()

    def served(self) -> tuple[ModelSettings, ...]:
        """All models, the default one first; the others inherit device, dtype and max_slots."""
        shared = self.model.model_dump(include={"device", "dtype", "max_slots"}, exclude_unset=True)
        more = (each.model_dump(exclude_unset=True) for each in self.models.more)
        if not self.models.more:
            return (self.model,)
        # Several models cannot each claim a share of a GPU: each reserves what its slots need.
        unclaimed = {"gpu_memory_utilization": None}
        alone = unclaimed | self.model.model_dump(exclude_unset=True)
        return (
            ModelSettings(**alone),
            *(ModelSettings(**unclaimed | shared | each) for each in more),
        )
