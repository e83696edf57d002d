"""On a GPU: kernels make the tokens that PyTorch lines make, and audio is that of the CPU."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.engine.plan import CodecChunk
from antiphon.models.cosyvoice3.conditioning import reference_arrays
from antiphon.models.cosyvoice3.decoder_stage import load_decoder
from antiphon.models.cosyvoice3.runner import load_runner
from antiphon.models.spec import LoadContext
from antiphon.nn import kernels
from antiphon.types import Samples
from tests.kernels import why_not_here
from tests.models.cosyvoice3.oracle.cases import reference, speech_tokens
from tests.models.cosyvoice3.speech import GREEDY, prompt_of, tokens_of

pytestmark = pytest.mark.gpu


@pytest.mark.skipif(bool(why_not_here()), reason=why_not_here() or "they run here")
def test_tokens_are_those_of_pytorch_lines(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = LoadContext(base, "cpu", "float32", 2)
    prompts = {0: prompt_of((5, 6, 7), seed=3, min_frames=8), 1: prompt_of((8, 9), sampling=GREEDY)}
    with closing(load_runner(context, max_positions=256, is_batched=True)) as runner:
        wanted = tokens_of(runner, prompts, 8)
    if torch.cuda.is_available():
        context = replace(context, device="cuda")
    else:  # in Triton's interpreter
        monkeypatch.setattr(kernels, "run_on", lambda tensor: True)
    with closing(load_runner(context, max_positions=256, is_batched=True)) as runner:
        assert tokens_of(runner, prompts, 8) == wanted


def audio_on(device: str, path: Path) -> Samples:
    decoder = load_decoder(LoadContext(path, device=device))
    rows, tokens = decoder.open(1), speech_tokens()
    store = torch.from_numpy(tokens)[None, :, None].to(device)
    decoder.reset(rows, 0, reference_arrays(*reference()))
    chunks = [CodecChunk(0, 0, 25), CodecChunk(0, 25, 25, len(tokens))]
    parts = [decoder.launch([each], store, rows).result()[0] for each in chunks]
    return np.concatenate(parts)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_audio_is_that_of_the_cpu_and_repeats(base: Path) -> None:
    found, again, wanted = (audio_on(device, base) for device in ("cuda", "cuda", "cpu"))
    np.testing.assert_array_equal(found, again)
    # Phases of the source move with rounding; how loud it is does not.
    assert len(found) == len(wanted)
    np.testing.assert_allclose(found.std(), wanted.std(), rtol=0.05)
