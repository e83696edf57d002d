"""Configurations of random checkpoints: a tiny one, and one of the published sizes."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Size: TypeAlias = Literal["tiny", "0.5b"]
Json: TypeAlias = dict[str, Any]

NUM_TEXT_IDS = 576  # of a tiny one: bytes and marks
FIRST_TINY_MARK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomSizes:
    """Sizes that differ between random checkpoints; all others are the published ones."""

    width: int
    feed_forward: int
    layers: int
    heads: int
    kv_heads: int
    text_ids: int
    flow_width: int
    flow_layers: int
    flow_heads: int
    flow_head_dim: int
    look_ahead_channels: int
    vocoder_channels: int
    pitch_channels: int


SIZES: dict[Size, RandomSizes] = {
    "tiny": RandomSizes(
        width=96,
        feed_forward=80,
        layers=2,
        heads=6,
        kv_heads=2,
        text_ids=NUM_TEXT_IDS,
        flow_width=32,
        flow_layers=2,
        flow_heads=2,
        flow_head_dim=16,
        look_ahead_channels=48,
        vocoder_channels=16,
        pitch_channels=16,
    ),
    "0.5b": RandomSizes(
        width=896,
        feed_forward=4864,
        layers=24,
        heads=14,
        kv_heads=2,
        text_ids=151936,
        flow_width=1024,
        flow_layers=22,
        flow_heads=16,
        flow_head_dim=64,
        look_ahead_channels=1024,
        vocoder_channels=512,
        pitch_channels=512,
    ),
}

_YAML = """\
__set_seed1: !apply:random.seed [1986]
sample_rate: 24000
llm_input_size: {width}
llm_output_size: {width}
spk_embed_dim: 192
qwen_pretrain_path: ''
token_frame_rate: 25
token_mel_ratio: 2
chunk_size: 25
num_decoding_left_chunks: -1

llm: !new:cosyvoice.llm.llm.CosyVoice3LM
    llm_input_size: !ref <llm_input_size>
    llm_output_size: !ref <llm_output_size>
    speech_token_size: 6561
    length_normalized_loss: True
    lsm_weight: 0
    mix_ratio: [5, 15]
    llm: !new:cosyvoice.llm.llm.Qwen2Encoder
        pretrain_path: !ref <qwen_pretrain_path>
    sampling: !name:cosyvoice.utils.common.ras_sampling
        top_p: 0.8
        top_k: 25
        win_size: 10
        tau_r: 0.1

flow: !new:cosyvoice.flow.flow.CausalMaskedDiffWithDiT
    input_size: 80
    output_size: 80
    spk_embed_dim: !ref <spk_embed_dim>
    output_type: 'mel'
    vocab_size: 6561
    input_frame_rate: !ref <token_frame_rate>
    only_mask_loss: True
    token_mel_ratio: !ref <token_mel_ratio>
    pre_lookahead_len: 3
    pre_lookahead_layer: !new:cosyvoice.transformer.upsample_encoder.PreLookaheadLayer
        in_channels: 80
        channels: {look_ahead_channels}
        pre_lookahead_len: 3
    decoder: !new:cosyvoice.flow.flow_matching.CausalConditionalCFM
        in_channels: 240
        n_spks: 1
        spk_emb_dim: 80
        cfm_params: !new:omegaconf.DictConfig
            content:
                sigma_min: 1e-06
                solver: 'euler'
                t_scheduler: 'cosine'
                training_cfg_rate: 0.2
                inference_cfg_rate: 0.7
                reg_loss_type: 'l1'
        estimator: !new:cosyvoice.flow.DiT.dit.DiT
            dim: {flow_width}
            depth: {flow_layers}
            heads: {flow_heads}
            dim_head: {flow_head_dim}
            ff_mult: 2
            mel_dim: 80
            mu_dim: 80
            spk_dim: 80
            out_channels: 80
            static_chunk_size: !ref <chunk_size> * <token_mel_ratio>
            num_decoding_left_chunks: !ref <num_decoding_left_chunks>

hift: !new:cosyvoice.hifigan.generator.CausalHiFTGenerator
    in_channels: 80
    base_channels: {vocoder_channels}
    nb_harmonics: 8
    sampling_rate: !ref <sample_rate>
    nsf_alpha: 0.1
    nsf_sigma: 0.003
    nsf_voiced_threshold: 10
    upsample_rates: [8, 5, 3]
    upsample_kernel_sizes: [16, 11, 7]
    istft_params:
        n_fft: 16
        hop_len: 4
    resblock_kernel_sizes: [3, 7, 11]
    resblock_dilation_sizes: [[1, 3, 5], [1, 3, 5], [1, 3, 5]]
    source_resblock_kernel_sizes: [7, 7, 11]
    source_resblock_dilation_sizes: [[1, 3, 5], [1, 3, 5], [1, 3, 5]]
    lrelu_slope: 0.1
    audio_limit: 0.99
    conv_pre_look_right: 4
    f0_predictor: !new:cosyvoice.hifigan.f0_predictor.CausalConvRNNF0Predictor
        num_class: 1
        in_channels: 80
        cond_channels: {pitch_channels}
"""


def yaml_of(sizes: RandomSizes) -> str:
    """Return the contents of cosyvoice3.yaml."""
    return _YAML.format(
        width=sizes.width,
        look_ahead_channels=sizes.look_ahead_channels,
        flow_width=sizes.flow_width,
        flow_layers=sizes.flow_layers,
        flow_heads=sizes.flow_heads,
        flow_head_dim=sizes.flow_head_dim,
        vocoder_channels=sizes.vocoder_channels,
        pitch_channels=sizes.pitch_channels,
    )


def text_config(sizes: RandomSizes) -> Json:
    """Return the contents of the language model's config.json."""
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "hidden_size": sizes.width,
        "intermediate_size": sizes.feed_forward,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "vocab_size": sizes.text_ids,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
    }
