"""The prior's kernels compile for a GPU that is not there, with heads and codebook of full size."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed")

from antiphon.contracts.family import LoadContext
from antiphon.engine.plan import Start
from antiphon.families.glm_image import sizes
from antiphon.families.glm_image.prior import load_prior
from antiphon.families.glm_image.prompt import GlmImagePrompter
from tests.engine.drive import Drive
from tests.families.glm_image.priors import ask
from tests.families.glm_image.random_checkpoint import make_checkpoint
from tests.nn.kernels.compiler import Compiler
from tests.nn.kernels.test_compilation import compiler

__all__ = ["compiler"]


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint with the published heads and codebook, and little else."""
    configs = json.loads(sizes._CONFIGS.read_text())
    prior, codebook = configs["vision_language_encoder/config.json"]["tiny"], 16384
    prior["text_config"] |= {
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "vision_vocab_size": codebook + 128,
        "vocab_size": 16776,
        "pad_token_id": 16768,
        "eos_token_id": codebook + 1,
        "rope_parameters": {"mrope_section": [8, 12, 12]},
    }
    prior["vq_config"]["num_embeddings"] = codebook
    ids = {"image_token_id": 16774, "image_start_token_id": codebook}
    prior |= {**ids, "image_end_token_id": codebook + 1}
    configs["transformer/config.json"]["tiny"]["prior_vq_quantizer_codebook_size"] = codebook
    (tmp_path / "sizes.json").write_text(json.dumps(configs))
    monkeypatch.setattr(sizes, "_CONFIGS", tmp_path / "sizes.json")
    make_checkpoint(tmp_path / "wide", size="tiny")
    return tmp_path / "wide"


@pytest.mark.slow  # it compiles
@pytest.mark.filterwarnings("ignore")  # Triton tells of changes to come
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("is_deterministic", [False, True])
def test_a_step_compiles(
    checkpoint: Path,
    wide: Path,
    dtype: str,
    is_deterministic: bool,
    request: pytest.FixtureRequest,
) -> None:
    prior = LoadContext(wide, "cpu", dtype, 4, is_deterministic=is_deterministic)
    # Attention of wide heads in float32 takes 37 s to assemble: that of small ones comes first.
    contexts = [*([replace(prior, path=checkpoint)] if dtype == "float32" else []), prior]
    prompts = [GlmImagePrompter(each).build(ask("a cat " * 20), 1) for each in contexts]
    compiled: Compiler = request.getfixturevalue("compiler")  # not before: it fakes torch.empty
    for context, prompt in zip(contexts, prompts, strict=True):
        compiled.shared_bytes.clear()
        drive = Drive(load_prior(context, is_batched=True))
        drive.step((0, 1), starts=[Start(0, prompt), Start(1, prompt)])
        drive.step((0, 1))
        assert {"_attend_tile", "_decode", "_draw", "_noise", "_keep_token"} <= compiled.names
        assert not compiled.too_large()
