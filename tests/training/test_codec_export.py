"""An exported codec in the engine: strict loading, the same samples, the same codes."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from antiphon.families.qwen3_tts.checkpoint import codec_decoder_part, codec_encoder_part, inspect
from antiphon.families.qwen3_tts.codec import decoder_of
from antiphon.families.qwen3_tts.config import CODEC_DIRECTORY, Qwen3TTSConfig
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.encoder import CodecEncoder
from antiphon.nn.codec_layers.windowed_decoder import WindowedDecoder
from antiphon.nn.weights import open_weights
from antiphon_training.codec import Codec
from antiphon_training.export import export_codec
from antiphon_training.sizes import FRAME_SAMPLES, PRESETS
from tests.families.qwen3_tts.random_checkpoint import write_all_but_weights

_TOLERANCE = 2e-5
_NUM_FRAMES = 90  # more than the decoder's window


@pytest.fixture
def codec() -> Codec:
    torch.manual_seed(0)
    codec = Codec(replace(PRESETS["tiny"], codebook_size=2048)).eval()
    with torch.no_grad():
        for name, parameter in codec.named_parameters():
            if name.endswith(("scale", "gamma", "alpha", "beta")):  # else hardly any effect
                parameter.copy_(torch.rand_like(parameter) * 0.5 + 0.1)
        encoded = codec.encoder(_noise(20 * FRAME_SAMPLES)[:, None])
        for quantizer in (codec.first, codec.rest):  # the first vectors are as large as a table's
            projected = quantizer.input_proj(encoded)
            quantizer.input_proj.weight.div_(projected.std(2, correction=0).mean())
    return codec


@pytest.fixture
def checkpoint(tmp_path: Path, codec: Codec) -> Path:
    write_all_but_weights(tmp_path, size="tiny", task="custom_voice")
    export_codec(codec, tmp_path / CODEC_DIRECTORY)
    return tmp_path


def _noise(num_samples: int) -> Tensor:
    return torch.rand(1, num_samples, generator=torch.Generator().manual_seed(2)) - 0.5


def _codes() -> Tensor:
    random = torch.Generator().manual_seed(1)
    return torch.randint(2048, (1, _NUM_FRAMES, 16), generator=random)


def _decoder(checkpoint: Path) -> WindowedDecoder:
    config = load_config(checkpoint)
    like = torch.empty(0)
    with open_weights(codec_decoder_part(checkpoint, config), like=like) as weights:
        return decoder_of(weights, config.codec.decoder)


def test_the_engine_finds_every_tensor_of_an_export(checkpoint: Path) -> None:
    problems = inspect(checkpoint).problems
    assert not [each for each in problems if CODEC_DIRECTORY in str(each)]


def test_a_stream_of_the_engine_equals_the_training_decoder(checkpoint: Path, codec: Codec) -> None:
    codes = _codes()
    expected = codec.decode(codes)
    decoder = _decoder(checkpoint)
    state = decoder.open(1)
    sizes = [1, 4, 20, _NUM_FRAMES - 25]
    chunks = [
        decoder.decode(some.transpose(1, 2), state) for some in torch.split(codes, sizes, dim=1)
    ]
    streamed = torch.cat(chunks, 1)
    assert expected.std() > 0.01
    torch.testing.assert_close(streamed, expected, atol=_TOLERANCE, rtol=0)


def test_the_engine_encodes_to_the_same_codes(checkpoint: Path, codec: Codec) -> None:
    samples = _noise(20 * FRAME_SAMPLES - 700)
    config: Qwen3TTSConfig = load_config(checkpoint)
    assert config.codec.encoder is not None
    with open_weights(codec_encoder_part(checkpoint, config), like=torch.empty(0)) as weights:
        encoder = CodecEncoder.of(weights, config.codec.encoder, config.codec.num_quantizers)
    expected, codes = encoder.encode(samples[0]), codec.encode(samples)[0]
    assert codes.shape == (20, 16)
    assert len(set(codes.flatten().tolist())) > 50
    # A rounding may choose another of two equally near vectors, which changes all codes after it.
    assert (codes == expected).float().mean() > 0.97


def test_half_precision_and_no_encoder_make_a_small_file(tmp_path: Path, codec: Codec) -> None:
    export_codec(codec, tmp_path / "whole")
    export_codec(codec, tmp_path / "half", with_encoder=False, dtype=torch.float16)
    whole, half = ((tmp_path / name / "model.safetensors").stat() for name in ("whole", "half"))
    assert half.st_size < whole.st_size / 2


def test_a_voice_without_an_encoder_is_served(checkpoint: Path, codec: Codec) -> None:
    whole = _decoder(checkpoint)
    export_codec(codec, checkpoint / CODEC_DIRECTORY, with_encoder=False)
    problems = inspect(checkpoint).problems
    assert not [each for each in problems if CODEC_DIRECTORY in str(each)]
    codes = _codes().transpose(1, 2)
    spoken, expected = (
        decoder.decode(codes, decoder.open(1)) for decoder in (_decoder(checkpoint), whole)
    )
    assert torch.equal(spoken, expected)


def test_a_padded_batch_has_the_codes_of_single_recordings(codec: Codec) -> None:
    samples = _noise(4 * FRAME_SAMPLES)
    padded = torch.nn.functional.pad(samples, (0, 3 * FRAME_SAMPLES))
    assert torch.equal(codec.encode(padded)[:, :4], codec.encode(samples))
