"""Records what the official code makes of checkpoints of random weights, as numbers only.

The official code is not a package that can be installed beside ours, and its licence forbids
bundling it: this imports it from a clone. Packages that it needs, and ours have not, lie in a
folder (``pip install --no-deps --target PACKAGES loguru einops loralib descript-audio-codec
tiktoken regex``); audiotools, of which a base class is all that is used, is stood in for.

    python -m tests.families.fish_speech.oracle.record CLONE PACKAGES

All is in float32 on the CPU. Draws are made with our noise: the official code draws by dividing
probabilities by exponential numbers, which is the maximum of logarithms and Gumbel noise.
"""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from antiphon.families.fish_speech.codec_schema import ENCODER_WINDOW, FRAME_WINDOW, HEAD_DIM
from antiphon.families.fish_speech.config import load_config
from antiphon.nn.sampler import gumbel_noise, seed_words
from tests.families.fish_speech.oracle import cases
from tests.families.fish_speech.random_checkpoint import TINY_CODEC

_MAX_POSITIONS = 2048 + 512  # it wants room for 2048 frames
_LARGEST_MASK = 8192


def main(clone: Path, packages: Path) -> None:
    sys.path[:0] = [str(clone), str(packages)]
    _stand_in_for_audiotools(packages)
    torch.set_num_threads(1)
    recorded: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        for case in cases.SPOKEN:
            path = Path(folder) / case.task
            cases.make_checkpoint(path, case.task)
            ids, frames = _speak(path, case)
            recorded[f"{case.name}.ids"] = ids.astype(np.int16)
            recorded[f"{case.name}.frames"] = frames.astype(np.int16)
        recorded |= _codec(Path(folder) / "s2")
        recorded["ranks.ids"] = _tokens(Path(folder)).astype(np.int16)
    np.savez_compressed(cases.FIXTURE, **recorded)


def _stand_in_for_audiotools(packages: Path) -> None:
    tools, learning, dac = ModuleType("audiotools"), ModuleType("audiotools.ml"), ModuleType("dac")
    base = ModuleType("dac.model.base")
    vars(tools).update(AudioSignal=None, ml=learning)
    vars(learning).update(BaseModel=nn.Module)
    vars(base).update(CodecMixin=type("CodecMixin", (), {"get_delay": lambda self: 0}))
    dac.__path__ = [str(packages / "dac")]
    nn_package = ModuleType("dac.nn")
    nn_package.__path__ = [str(packages / "dac" / "nn")]
    for module in (tools, learning, dac, nn_package, base, ModuleType("dac.model")):
        sys.modules[module.__name__] = module


def _speak(path: Path, case: cases.Spoken) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a prompt, ``[1 + num_codebooks, n]``, and the frames that follow, ``[n, ...]``."""
    llama: Any = import_module("fish_speech.models.text2semantic.llama")
    inference: Any = import_module("fish_speech.models.text2semantic.inference")
    tokens = load_config(path).tokens
    model = llama.DualARTransformer.from_pretrained(
        str(path), load_weights=True, max_length=_MAX_POSITIONS
    )
    model.eval().float()
    model._cache_setup_done = False
    if case.task == "s1":  # its tokenizer is that of an earlier version of the code
        model.tokenizer = SimpleNamespace(get_token_id=tokens.ids.__getitem__)
        model.config.semantic_begin_id = tokens.first_semantic
        model.config.semantic_end_id = tokens.first_semantic + tokens.num_semantic - 1
        prompt = torch.from_numpy(cases.interleaved(path, case))
    else:
        prompt = _conversation(model, case)
    inference.multinomial_sample_one_no_sync = _drawing(model, tokens, case.seed)
    made = inference.generate(
        model=model,
        prompt=prompt,
        max_new_tokens=case.num_frames,
        audio_masks=None,
        audio_parts=None,
        temperature=case.temperature,
        top_p=case.top_p,
        top_k=case.top_k,
    )
    ids = made[:, prompt.shape[1] :]
    frames = ids[1:].T.clone()
    frames[:, 0] = torch.where(
        ids[0] == tokens.end, tokens.num_semantic, ids[0] - tokens.first_semantic
    )
    return prompt.numpy(), frames.numpy()


def _conversation(model: Any, case: cases.Spoken) -> Tensor:
    """Build a prompt as the official code does, and stop before it speaks."""
    inference: Any = import_module("fish_speech.models.text2semantic.inference")
    found: list[Tensor] = []

    class BuiltError(Exception):
        pass

    def keep(*, prompt: Tensor, **_: Any) -> None:
        found.append(prompt)
        raise BuiltError

    # What shows a prompt has an argument that this version does not take.
    conversation: Any = import_module("fish_speech.conversation")
    conversation.Conversation.visualize = lambda *_, **__: None
    generate, inference.generate = inference.generate, keep
    codes = case.reference
    try:
        for _ in inference.generate_long(
            model=model,
            device="cpu",
            decode_one_token=inference.decode_one_token_ar,
            text=case.text,
            prompt_text=None if codes is None else [case.ref_text],
            prompt_tokens=None if codes is None else [torch.from_numpy(codes.T)],
        ):
            pass
    except BuiltError:
        pass
    inference.generate = generate
    return found[0]


def _drawing(model: Any, tokens: Any, seed: int) -> Callable[[Tensor], Tensor]:
    """Return what draws with our noise; it is called eleven times a frame, always in one order."""
    num_codebooks = model.config.num_codebooks
    order = [0, num_codebooks, *range(1, num_codebooks)]
    calls = iter(range(1 << 30))
    words = torch.tensor([seed_words(seed)])
    codes = [*range(tokens.first_semantic, tokens.first_semantic + tokens.num_semantic), tokens.end]

    def draw(probabilities: Tensor) -> Tensor:
        frame, index = divmod(next(calls), len(order))
        scores = probabilities.log()
        if index < 2:
            scores = scores[codes]
        noise = gumbel_noise(
            words, torch.tensor([frame]), torch.tensor([order[index]]), len(scores)
        )
        drawn = (scores + noise[0, 0]).argmax(dim=-1, keepdim=True)
        return (torch.tensor(codes)[drawn] if index < 2 else drawn).to(torch.int)

    return draw


def _codec(path: Path) -> dict[str, NDArray[Any]]:
    """Return what the codec makes of codes and of a recording."""
    # Masks of 32768 positions are made for attention without a window, which there is none of.
    ones = torch.ones
    torch.ones = lambda *size, **more: ones(
        *(1 if isinstance(each, int) and each > _LARGEST_MASK else each for each in size), **more
    )
    model = _official_codec()
    torch.ones = ones
    state = torch.load(path / "codec.pth", weights_only=True)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    assert not [name for name in missing if "mask" not in name and "freqs" not in name], missing
    model.eval().float()
    codes, samples = cases.codes(), cases.recording()
    wave = model.from_indices(torch.from_numpy(codes.T)[None].clone())[0, 0]
    length = torch.tensor([len(samples)])
    encoded, lengths = model.encode(torch.from_numpy(samples)[None, None], length)
    return {
        "codec.wave": wave[:: cases.WAVE_STEP].numpy(),
        "codec.encoded": encoded[0, :, : lengths[0]].T.numpy().astype(np.int16),
    }


def _official_codec() -> Any:
    dac: Any = import_module("fish_speech.models.dac.modded_dac")
    rvq: Any = import_module("fish_speech.models.dac.rvq")
    sizes = TINY_CODEC
    common = {"head_dim": HEAD_DIM, "rope_base": 10_000, "norm_eps": 1e-5, "channels_first": True}

    def over_frames() -> Any:
        args = dac.ModelArgs(
            n_layer=sizes.frame_layers,
            n_head=sizes.latent_width // HEAD_DIM,
            dim=sizes.latent_width,
            intermediate_size=sizes.feed_forward_width,
            **common,
        )
        return dac.WindowLimitedTransformer(
            args, input_dim=sizes.latent_width, window_size=FRAME_WINDOW, causal=True
        )

    general = partial(dac.ModelArgs, **common)
    assert getattr(general, "window_size", ENCODER_WINDOW) == ENCODER_WINDOW
    return dac.DAC(
        encoder_dim=sizes.encoder_width,
        encoder_rates=list(sizes.strides),
        latent_dim=sizes.latent_width,
        decoder_dim=sizes.decoder_width,
        decoder_rates=list(sizes.rates),
        quantizer=rvq.DownsampleResidualVectorQuantize(
            input_dim=sizes.latent_width,
            n_codebooks=sizes.num_residual,
            codebook_dim=sizes.codebook_dim,
            codebook_size=sizes.residual_codes,
            semantic_codebook_size=sizes.semantic_codes,
            downsample_factor=sizes.factors,
            pre_module=over_frames(),
            post_module=over_frames(),
        ),
        encoder_transformer_layers=list(sizes.encoder_layers),
        decoder_transformer_layers=[4, 0, 0, 0],
        transformer_general_config=general,
    )


def _tokens(folder: Path) -> NDArray[Any]:
    """Return the ids that tiktoken finds with the pattern that S1's tokenizer states."""
    tiktoken: Any = import_module("tiktoken")
    pattern = "|".join(cases.S1_PATTERN)
    encoding = tiktoken.Encoding(
        name="s1", pat_str=pattern, mergeable_ranks=cases.ranks(), special_tokens={}
    )
    return np.concatenate([np.array([*encoding.encode_ordinary(text), -1]) for text in cases.TEXTS])


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
