"""Records what the published modules compute on a checkpoint of random weights, for `test_parity`.

python tests/families/cosyvoice3/oracle/record.py CHECKOUT TORCHAUDIO WHISPER

The arguments are a checkout of FunAudioLLM/CosyVoice, a folder with ``torchaudio/compliance`` out
of the package torchaudio, and an unpacked source package of openai-whisper. PYTHONPATH has this
repository, and x-transformers 2.11.24, einops, einx, loguru, frozendict and scipy. What these
modules import and do not need here is replaced by empty modules.
"""

import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from antiphon.families.cosyvoice3.config import TEXT_FOLDER, load_config
from antiphon.families.cosyvoice3.vocoder import source_noise
from tests.families.cosyvoice3.oracle import cases
from tests.families.cosyvoice3.random_checkpoint import make_checkpoint

FIXTURE = Path(__file__).parent.parent / "fixtures" / "parity.npz"


def module(name: str, **attributes: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(attributes)
    sys.modules[name] = made
    return made


def published(name: str, attribute: str) -> Any:
    """Import something of the published code, whose types are not known here."""
    return getattr(import_module(name), attribute)


class BaseFlow(torch.nn.Module):
    """Matcha's base class, of which the published code uses the constructor alone."""

    def __init__(self, **_: Any) -> None:
        super().__init__()


def replace_modules(torchaudio: str, whisper: str) -> None:
    for name in ("matcha", "matcha.models", "matcha.models.components"):
        module(name)
    module("matcha.models.components.flow_matching", BASECFM=BaseFlow)
    module("omegaconf", DictConfig=lambda content: SimpleNamespace(**content))
    online = {"SpeechTokenExtractor": None, "online_feature": False, "onnx_path": ""}
    module("cosyvoice.utils.onnx", **online)
    module("torchaudio").__path__ = [f"{torchaudio}/torchaudio"]
    module("whisper").__path__ = [f"{whisper}/whisper"]


def published_flow(path: Path) -> Any:
    """Return the published flow with a checkpoint's weights."""
    transformer_class = published("cosyvoice.flow.DiT.dit", "DiT")
    flow_class = published("cosyvoice.flow.flow", "CausalMaskedDiffWithDiT")
    matching_class = published("cosyvoice.flow.flow_matching", "CausalConditionalCFM")
    look_ahead_class = published("cosyvoice.transformer.upsample_encoder", "PreLookaheadLayer")

    config = load_config(path).flow
    transformer = transformer_class(
        dim=config.hidden_size,
        depth=config.num_layers,
        heads=config.num_heads,
        dim_head=config.head_dim,
        ff_mult=config.feed_forward_factor,
        mel_dim=80,
        mu_dim=80,
        spk_dim=80,
        out_channels=80,
        static_chunk_size=50,
        num_decoding_left_chunks=-1,
    )
    params = SimpleNamespace(
        t_scheduler="cosine", training_cfg_rate=0.2, inference_cfg_rate=config.guidance
    )
    matching = matching_class(240, params, 1, 80, transformer)
    flow = flow_class(
        input_size=80,
        output_size=80,
        vocab_size=config.num_tokens,
        input_frame_rate=25,
        pre_lookahead_len=3,
        pre_lookahead_layer=look_ahead_class(80, config.look_ahead_channels, 3),
        decoder=matching,
    )
    told = flow.load_state_dict(torch.load(path / "flow.pt", weights_only=True), strict=False)
    assert told.missing_keys == ["decoder.estimator.rotary_embed.inv_freq"], told
    assert not told.unexpected_keys, told
    flow.eval()
    return flow


@torch.inference_mode()
def mel_frames(path: Path) -> dict[str, Any]:
    """Run the flow in one pass with masked chunks, as it streams; and what it starts from."""
    flow = published_flow(path)
    tokens, mel, speaker = (torch.from_numpy(each)[None] for each in cases.reference())
    speech = torch.from_numpy(cases.speech_tokens())[None]
    lengths = [torch.tensor([each.shape[1]]) for each in (speech, tokens, mel)]
    made, _ = flow.inference(
        *(speech, lengths[0], tokens, lengths[1], mel, lengths[2], speaker),
        streaming=True,
        finalize=True,
    )
    start = flow.decoder.rand_noise[0].T
    return {"mel": made[0].T.numpy(), "solver_noise": start[[0, 1, 777, 14_999]].numpy()}


def published_vocoder(path: Path, num_frames: int) -> Any:
    """Return the published vocoder with a checkpoint's weights, and our noise of the source."""
    pitch_class = published("cosyvoice.hifigan.f0_predictor", "CausalConvRNNF0Predictor")
    vocoder_class = published("cosyvoice.hifigan.generator", "CausalHiFTGenerator")

    config = load_config(path).vocoder
    vocoder = vocoder_class(
        in_channels=80,
        base_channels=config.base_channels,
        nb_harmonics=config.num_overtones,
        sampling_rate=24_000,
        nsf_alpha=config.sine_level,
        nsf_sigma=config.voiced_noise,
        nsf_voiced_threshold=config.min_voiced_hz,
        upsample_rates=[*config.upsample_rates],
        upsample_kernel_sizes=[*config.upsample_kernel_sizes],
        istft_params={"n_fft": config.fft_size, "hop_len": config.hop_samples},
        resblock_kernel_sizes=[*config.kernel_sizes],
        resblock_dilation_sizes=[[*each] for each in config.dilations],
        source_resblock_kernel_sizes=[*config.source_kernel_sizes],
        source_resblock_dilation_sizes=[[*each] for each in config.source_dilations],
        lrelu_slope=config.slope,
        audio_limit=config.max_level,
        conv_pre_look_right=config.look_ahead_frames,
        f0_predictor=pitch_class(1, 80, config.pitch_channels),
    )
    vocoder.load_state_dict(torch.load(path / "hift.pt", weights_only=True))
    vocoder.eval()
    noise = source_noise(torch.zeros(1, dtype=torch.int64), num_frames, config)[0]
    vocoder.m_source.l_sin_gen.sine_waves = noise.transpose(1, 2).flatten(0, 1)[None]
    return vocoder


@torch.inference_mode()
def vocoded(path: Path) -> dict[str, Any]:
    """Run the vocoder in one pass."""
    vocoder = published_vocoder(path, cases.VOCODER_FRAMES)
    mel = torch.from_numpy(cases.vocoder_mel()).T[None]
    pitch = vocoder.f0_predictor.double()(mel.double())[0].float()
    samples, _ = vocoder.inference(mel)
    return {"samples": samples[0].numpy(), "pitch": pitch.numpy()}


@torch.inference_mode()
def logits(path: Path) -> dict[str, Any]:
    """Run the language model over text and forced speech; keep some logits of each position."""
    model_class = published("cosyvoice.llm.llm", "CosyVoice3LM")

    language: Any = Qwen2ForCausalLM(Qwen2Config.from_pretrained(path / TEXT_FOLDER))
    core = torch.nn.Module()
    core.model = language
    model = model_class(language.config.hidden_size, language.config.hidden_size, 6561, core, None)
    told = model.load_state_dict(torch.load(path / "llm.pt", weights_only=True), strict=False)
    assert told.missing_keys == ["llm.model.lm_head.weight"], told
    assert not told.unexpected_keys, told
    text = model.llm.model.model.embed_tokens(torch.tensor([cases.TEXT_IDS]))
    marks = model.speech_embedding(torch.tensor([[model.sos], [model.task_id]]))
    speech = model.speech_embedding(torch.tensor([cases.SPEECH_IDS]))
    inputs = torch.cat((marks[:1], text, marks[1:], speech), dim=1)
    hidden = model.llm.model.model(inputs_embeds=inputs).last_hidden_state
    said = model.llm_decoder(hidden[0, -len(cases.SPEECH_IDS) - 1 :])
    return {"logits": said[:, :: cases.LOGITS_STRIDE].numpy()}


def heard() -> dict[str, Any]:
    """Compute the spectrograms by which recordings are heard."""
    fbank = published("torchaudio.compliance.kaldi", "fbank")
    log_mel_spectrogram = published("whisper.audio", "log_mel_spectrogram")

    speech = torch.from_numpy(cases.recording(16_000))
    banks = fbank(speech[None], num_mel_bins=80, dither=0, sample_frequency=16_000)
    banks = banks - banks.mean(dim=0, keepdim=True)
    return {
        "fbank": banks.numpy()[::5],
        "whisper": log_mel_spectrogram(speech, n_mels=128).numpy()[:, ::5],
    }


def main() -> None:
    checkout, torchaudio, whisper = sys.argv[1:]
    sys.path.insert(0, checkout)
    replace_modules(torchaudio, whisper)
    with TemporaryDirectory() as folder:
        path = Path(folder)
        make_checkpoint(path, seed=cases.CHECKPOINT_SEED)
        found = mel_frames(path) | vocoded(path) | logits(path) | heard()
    FIXTURE.parent.mkdir(exist_ok=True)
    kept: dict[str, Any] = {name: np.float32(each) for name, each in found.items()}
    np.savez_compressed(FIXTURE, **kept)


if __name__ == "__main__":
    main()
