"""Random weights drawn in place of files: each kind of tensor has the scale of its kind."""

import math

import pytest
import torch

from antiphon.nn.dummy_weights import DrawnTensors

TABLES = {
    "model.embed_tokens.weight": (264, 48),
    "talker.code_predictor.model.codec_embedding.3.weight": (2048, 64),
    "token2wav.code2wav_dit_model.text_embed.codec_embed.weight": (41, 12),
    "decoder.sr_cond_model.5.bias_embed.weight": (4, 32),
    "decoder.quantizer.rvq_first.vq.layers.0._codebook.embedding_sum": (2048, 32),
    "encoder.quantizer.vq.layers.1._codebook.embed": (32, 32),
    "quantizer.semantic_quantizer.quantizers.0.codebook.weight": (160, 8),
    "bert.embeddings.word_embeddings.weight": (178, 128),
    "model.visual.embeddings.position_embedding.weight": (64, 32),
    "vision_model.embeddings.class_embedding": (512,),
}
MATRICES = {
    "decoder.estimator.time_embed.time_mlp.0.weight": (32, 256),
    "decoder.estimator.input_embed.proj.weight": (32, 320),
    "spk_embed_affine_layer.weight": (80, 192),
    "condition_embedder.text_embedder.linear_1.weight": (48, 512),
    "condition_embedder.image_embedder.ff.net.0.proj.weight": (16, 256),
    "x_embedder.weight": (64, 640),
    "bert.encoder.embedding_hidden_mapping_in.weight": (32, 128),
    "speech_embeddings_to_local.weight": (64, 320),
    "decoder.vocoder.embeddings.weight": (240, 160),
}
CONVOLUTIONS = {
    "model.visual.patch_embed.proj.weight": (32, 3, 16, 16),
    "patch_embedding.weight": (48, 16, 1, 2, 2),
    "decoder.estimator.input_embed.conv_pos_embed.conv1.0.weight": (32, 2, 31),
}


def std_of(name: str, shape: tuple[int, ...]) -> float:
    drawn = DrawnTensors({name: shape}, torch.empty(0)).get_tensor(name)
    assert drawn.shape == shape
    assert abs(drawn.mean()) < 0.2 * drawn.std()
    return float(drawn.std())


@pytest.mark.parametrize("name", TABLES)
def test_a_table_s_rows_have_one_scale_whatever_its_size_is(name: str) -> None:
    assert std_of(name, TABLES[name]) == pytest.approx(0.5, rel=0.2)


@pytest.mark.parametrize("name", [*MATRICES, *CONVOLUTIONS])
def test_a_projection_keeps_the_scale_of_its_inputs(name: str) -> None:
    shape = (MATRICES | CONVOLUTIONS)[name]
    gain = 1.0 if name in MATRICES else 0.5
    assert std_of(name, shape) == pytest.approx(gain / math.sqrt(math.prod(shape[1:])), rel=0.2)


def test_norms_within_embeddings_are_norms() -> None:
    name = "bert.embeddings.LayerNorm.weight"
    drawn = DrawnTensors({name: (128,)}, torch.empty(0)).get_tensor(name)
    assert float(drawn.mean()) == pytest.approx(1.0, abs=0.05)
