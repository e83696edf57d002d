"""The codec of a trained voice on a GPU: float16 kernels at its widths, with its weights."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.kernels import why_not_here

if reason := why_not_here():
    pytest.skip(reason, allow_module_level=True)

from antiphon.families.qwen3_tts.checkpoint import codec_decoder_part
from antiphon.families.qwen3_tts.codec import decoder_of, fused
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.nn.codec_layers.frame_table import empty_table, fill
from antiphon.nn.weights import open_weights

CHECKPOINT = Path(__file__).parents[3] / "voices/antiphon-voice-wren/antiphon_voice_wren/checkpoint"
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
NUM_FRAMES, NUM_REPEATS = 12, 10
MIN_SNR_DB = 45.0
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(DEVICE.type != "cuda", reason="half a minute a frame in the interpreter"),
    pytest.mark.skipif(not CHECKPOINT.exists(), reason="the voice is not in this checkout"),
]


@torch.inference_mode()
def test_audio_is_that_of_the_exact_decoder_each_time() -> None:
    config = load_config(CHECKPOINT)
    part, like = codec_decoder_part(CHECKPOINT, config), torch.zeros(1, device=DEVICE)
    with open_weights(part, like=like) as weights:
        exact = decoder_of(weights, config.codec.decoder)
    random = torch.Generator().manual_seed(1)
    codes = torch.randint(0, 2048, (NUM_FRAMES, 16), generator=random).to(DEVICE)
    expected = exact.decode_whole(codes.T[None]).flatten()
    decoder = fused(exact)

    def decoded(group: int) -> Tensor:
        """Decode as many frames at a time."""
        state, table = decoder.open(2), empty_table(group, DEVICE)
        parts = []
        for part in torch.split(codes, group):
            rows = table.cpu().numpy()
            fill(rows, [(0, group)], group, 1, group)
            table.copy_(torch.from_numpy(rows))
            parts.append(decoder.decode(part, table, state, group).flatten())
        return torch.cat(parts)

    heard = decoded(NUM_FRAMES)
    error = (heard - expected).square().sum()
    assert 10 * torch.log10(expected.square().sum() / error) > MIN_SNR_DB
    for repeat in range(NUM_REPEATS):
        assert torch.equal(decoded((12, 4, 3, 1)[repeat % 4]), heard)
