"""Recordings are heard as by the encoders, once, by however many ask, and only as far as asked."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.types import Samples
from antiphon.errors import InvalidRequestError
from antiphon.families.kit.cloned_voices import CODES, SPEAKER, Recording
from antiphon.families.qwen3_tts.checkpoint import codec_encoder_part, speaker_encoder_part
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.encoder import CodecEncoder, load_voice_encoder
from antiphon.families.qwen3_tts.prompt import Qwen3TTSPrompter
from antiphon.nn.ecapa import EcapaEncoder
from antiphon.nn.weights import open_weights

NUM_SAMPLES = 24000


def recording(seed: int = 0) -> Samples:
    rng = np.random.default_rng(seed)
    samples = rng.uniform(-0.3, 0.3, NUM_SAMPLES).astype(np.float32)
    samples.flags.writeable = False  # as those that requests share
    return samples


@pytest.fixture(scope="module")
def path(checkpoint: Callable[..., Path]) -> Path:
    return checkpoint("tiny", CheckpointTask.BASE)


def preparer_of(context: LoadContext) -> Qwen3TTSPrompter:
    encoder, prompter = load_voice_encoder(context), Qwen3TTSPrompter(context)
    prompter.use_encoder(lambda recording: encoder.encode(recording).data)
    return prompter


def vector_only(prompter: Qwen3TTSPrompter, samples: Samples) -> PreparedVoice:
    """Prepare a voice as prompts do that use no more of a recording."""
    return prompter.prepare_parts(samples, [SPEAKER], name="a", ref_text=None)


@pytest.fixture
def preparer(path: Path) -> Qwen3TTSPrompter:
    return preparer_of(LoadContext(path, "cpu", "bfloat16"))


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list of what is computed by encoders that are made from now on."""
    calls: list[str] = []
    embed, encode = EcapaEncoder.embed, CodecEncoder.encode

    def noted_embed(self: EcapaEncoder, samples: torch.Tensor) -> torch.Tensor:
        assert not torch.backends.cudnn.allow_tf32
        calls.append("speaker")
        return embed(self, samples)

    def noted_encode(self: CodecEncoder, samples: torch.Tensor) -> torch.Tensor:
        assert not torch.backends.cudnn.allow_tf32
        calls.append("codes")
        return encode(self, samples)

    monkeypatch.setattr(EcapaEncoder, "embed", noted_embed)
    monkeypatch.setattr(CodecEncoder, "encode", noted_encode)
    return calls


@pytest.fixture
def noted(path: Path, heard: list[str]) -> Qwen3TTSPrompter:
    """Return one whose encoders note what they compute."""
    preparer = preparer_of(LoadContext(path, "cpu", "bfloat16"))
    heard.clear()  # they have been warmed
    return preparer


def test_a_voice_is_what_the_encoders_hear(path: Path, preparer: Qwen3TTSPrompter) -> None:
    config, samples = load_config(path), torch.tensor(recording())
    assert config.speaker_encoder is not None
    assert config.codec.encoder is not None
    with open_weights(speaker_encoder_part(path, config), like=samples) as weights:
        speaker = EcapaEncoder.of(weights, "speaker_encoder", config.speaker_encoder).embed(samples)
    with open_weights(codec_encoder_part(path, config), like=samples) as weights:
        encoder = CodecEncoder.of(weights, config.codec.encoder, config.codec.num_quantizers)
    voice = preparer.prepare_voice(recording(), name="Ann", ref_text="Hello.")
    assert (voice.name, voice.family, voice.ref_text) == ("Ann", "qwen3_tts", "Hello.")
    assert voice.speaker_embedding is not None
    assert voice.ref_codes is not None
    np.testing.assert_array_equal(voice.speaker_embedding, speaker.numpy())
    np.testing.assert_array_equal(voice.ref_codes, encoder.encode(samples).numpy())


def test_what_was_heard_is_not_heard_again(noted: Qwen3TTSPrompter, heard: list[str]) -> None:
    first = noted.prepare_voice(recording(), name="a", ref_text="One.")
    again = noted.prepare_voice(recording().copy(), name="b", ref_text="Two.")
    assert heard == ["speaker", "codes"]
    np.testing.assert_array_equal(first.ref_codes, again.ref_codes)
    assert (again.name, again.ref_text) == ("b", "Two.")
    other = noted.prepare_voice(recording(1), name="a", ref_text="One.")
    assert heard == ["speaker", "codes"] * 2
    assert other.content_hash != first.content_hash


def test_warming_hears_all_that_recordings_are_heard_by_and_keeps_nothing(
    noted: Qwen3TTSPrompter, heard: list[str]
) -> None:
    noted.warm_encoder()
    noted.warm_encoder()
    assert heard == ["speaker", "codes"] * 2


def test_a_recording_goes_to_the_encoder_once(path: Path) -> None:
    encoder = load_voice_encoder(LoadContext(path, "cpu"))
    sent: list[Recording] = []

    def encode(recording: Recording) -> object:
        sent.append(recording)
        return encoder.encode(recording).data

    preparer = Qwen3TTSPrompter(LoadContext(path))
    preparer.use_encoder(encode)
    preparer.prepare_voice(recording(), name="a", ref_text="One.")
    assert [each.wanted for each in sent] == [(SPEAKER, CODES)]
    vector_only(preparer, recording(1))
    preparer.prepare_voice(recording(1), name="b", ref_text="Two.")
    assert [each.wanted for each in sent[1:]] == [(SPEAKER,), (CODES,)]


def test_codes_are_made_when_they_are_wanted(noted: Qwen3TTSPrompter, heard: list[str]) -> None:
    vector = vector_only(noted, recording())
    assert vector.ref_codes is None
    assert heard == ["speaker"]
    whole = noted.prepare_voice(recording(), name="a", ref_text="One.")
    assert whole.ref_codes is not None
    assert heard == ["speaker", "codes"]


def test_threads_share_what_is_heard(noted: Qwen3TTSPrompter, heard: list[str]) -> None:
    with ThreadPoolExecutor(4) as pool:
        voices = list(
            pool.map(
                lambda n: noted.prepare_voice(recording(n % 2), name="a", ref_text="One."), range(8)
            )
        )
    assert sorted(heard) == ["codes"] * 2 + ["speaker"] * 2
    assert len({voice.content_hash for voice in voices}) == 2
    assert voices[0].content_hash == voices[2].content_hash


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_words_that_say_nothing_are_none(preparer: Qwen3TTSPrompter, text: str | None) -> None:
    assert preparer.prepare_voice(recording(), name="a", ref_text=text).ref_text is None


def test_a_recording_that_is_too_short_is_refused(preparer: Qwen3TTSPrompter) -> None:
    for _ in range(2):  # a refusal is not kept
        with pytest.raises(InvalidRequestError, match="seconds of audio"):
            preparer.prepare_voice(recording()[:100], name="a", ref_text=None)


MAX_TURNED = {"tiny": 0.0, "0.6b": 0.01}
"""Share of the codes that may differ between a CPU and a GPU."""


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("size", ["tiny", "0.6b"])  # the codec of 0.6b is that of all published
def test_a_gpu_hears_what_a_cpu_hears(size: str, checkpoint: Callable[..., Path]) -> None:
    path = checkpoint(size, CheckpointTask.BASE)
    on_cpu, on_gpu = (preparer_of(LoadContext(path, device)) for device in ("cpu", "cuda"))
    for seed in range(3):
        samples = tune(seed)
        one, other = (
            each.prepare_voice(samples, name="Ann", ref_text="Hello.") for each in (on_cpu, on_gpu)
        )
        assert one.ref_codes is not None
        assert one.speaker_embedding is not None
        assert other.speaker_embedding is not None
        assert len(np.unique(one.ref_codes)) > 20, "next to nothing is told apart"
        # Sums in another order turn a code where two entries are as near, now and then.
        share = np.mean(one.ref_codes != other.ref_codes)
        assert share <= MAX_TURNED[size], f"seed {seed}: {share:.2%} of the codes differ"
        np.testing.assert_allclose(
            one.speaker_embedding, other.speaker_embedding, rtol=1e-3, atol=1e-4
        )
    assert torch.backends.cudnn.allow_tf32, "others are slowed down"


def tune(seed: int) -> Samples:
    """Return 3 s of gliding tones and noise."""
    rng = np.random.default_rng(seed)
    times_s = np.arange(3 * NUM_SAMPLES) / NUM_SAMPLES
    samples = 0.02 * rng.normal(size=len(times_s))
    for hz in rng.uniform(80, 4000, 6):
        samples += 0.1 * np.sin(2 * np.pi * hz * times_s * (1 + 0.1 * times_s))
    return samples.astype(np.float32)


def test_what_no_prompt_could_hold_is_not_encoded(path: Path) -> None:
    encoder = load_voice_encoder(LoadContext(path, "cpu", "float32"))
    long = np.zeros(330 * 24_000, np.float32)
    with pytest.raises(InvalidRequestError, match=r"to 312\.3 seconds") as caught:
        encoder.encode(Recording(long, (SPEAKER,)))
    assert caught.value.param == "ref_audio"
