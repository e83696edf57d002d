"""Edits against transformers and diffusers: codes of images, what is read, and the result."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import PIL.Image
import pytest
import torch
from numpy.typing import NDArray

from antiphon.config.diffusion import DiffusionSettings
from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import DiffusionParameters, Image
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.errors import InvalidRequestError
from antiphon.families.glm_image.config import PRIOR_DIRECTORY, PROCESSOR_DIRECTORY
from antiphon.families.glm_image.denoiser import GlmImageDenoiser
from antiphon.families.glm_image.image_tokenizer import GlmImageTokenizer
from antiphon.families.glm_image.prior import PriorRunner
from antiphon.families.glm_image.prompt import GlmImagePrompter
from antiphon.families.glm_image.sources import SourceSizes
from antiphon.families.glm_image.stages import GlmImageTextEncoder, GlmImageVae
from tests.engine.drive import tokens_of
from tests.families.glm_image.priors import ask, data_of

TEXT = "Make it 'blue'"


def picture(width: int, height: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


SOURCES = (picture(96, 64), picture(32, 64, 1))


@pytest.fixture(scope="module")
def editor(context: LoadContext) -> GlmImagePrompter:
    """A prompter with its encoder, which no stage drives."""
    tokenizer, prompter = GlmImageTokenizer(context), GlmImagePrompter(context)

    def encode(data: Any) -> NDArray[Any]:
        (latents,) = tokenizer.generate(Prompt(data=data, num_tokens=1, seed=0))
        codes: NDArray[Any] = latents.data
        return codes

    prompter.use_encoder(encode)
    return prompter


def edit(
    editor: GlmImagePrompter, *images: NDArray[np.uint8], seed: int = 3, guidance: float = 1.5
) -> Prompt:
    parameters = DiffusionParameters(num_inference_steps=3, guidance_scale=guidance)
    return editor.build(ask(TEXT, 64, 64, images=images, parameters=parameters), seed)


@pytest.mark.parametrize("images", [SOURCES[:1], SOURCES], ids=["one image", "two images"])
def test_the_prior_reads_what_the_official_one_reads(
    checkpoint: Path, editor: GlmImagePrompter, images: tuple[NDArray[np.uint8], ...]
) -> None:
    from transformers import GlmImageForConditionalGeneration, GlmImageProcessor

    processor: Any = GlmImageProcessor.from_pretrained(checkpoint / PROCESSOR_DIRECTORY)
    official: Any = GlmImageForConditionalGeneration.from_pretrained(checkpoint / PRIOR_DIRECTORY)
    content: list[dict[str, Any]] = [
        {"type": "image", "image": PIL.Image.fromarray(each)} for each in images
    ]
    content.append({"type": "text", "text": TEXT})
    inputs = processor.apply_chat_template(
        [[{"role": "user", "content": content}]],
        tokenize=True,
        return_dict=True,
        processor_kwargs={"target_h": 64, "target_w": 64, "return_tensors": "pt"},
    )
    grids = inputs["image_grid_thw"]
    with torch.inference_mode():
        features = official.get_image_features(inputs["pixel_values"], grids[:-1]).pooler_output
        codes = official.get_image_tokens(features)
        ids = inputs["input_ids"].clone()
        ids[ids == official.config.image_token_id] = codes
        read, _ = official.model.get_rope_index(ids, grids)
    prior = data_of(edit(editor, *images)).prior
    assert len(set(codes.tolist())) > 2
    assert prior.ids == tuple(ids[0].tolist())
    to_come = official.model._cached_decode_position_ids[0, :, :-1]
    wanted = torch.cat((read[:, 0], to_come), dim=1).T.numpy()
    np.testing.assert_array_equal(prior.positions, wanted)


def test_only_the_image_is_drawn(editor: GlmImagePrompter, prior: PriorRunner) -> None:
    prompt = edit(editor, *SOURCES)
    assert not prompt.position_keys, "equal ids may lie in other grids"
    codes = tokens_of(prior, {0: prompt, 2: edit(editor, SOURCES[0], seed=4)})
    assert len(codes[0]) == len(codes[2]) == 4
    assert tokens_of(prior, {1: prompt})[1] == codes[0]


@pytest.mark.parametrize("guidance", [1.0, 2.0])
@pytest.mark.parametrize("images", [SOURCES[:1], SOURCES], ids=["one image", "two images"])
def test_an_edit_is_that_of_diffusers(
    checkpoint: Path,
    context: LoadContext,
    editor: GlmImagePrompter,
    images: tuple[NDArray[np.uint8], ...],
    guidance: float,
) -> None:
    from diffusers import GlmImagePipeline

    prompt = edit(editor, *images, guidance=guidance)
    prior = data_of(prompt).prior
    codes = np.random.default_rng(1).integers(0, 64, (4, 1))
    encoder, denoiser = GlmImageTextEncoder(context), GlmImageDenoiser(context)
    (encoded,) = encoder.generate(replace(prompt, conditioning=Latents(tuple(codes))))
    state, other = denoiser.begin(prompt, encoded), denoiser.begin(prompt, encoded)
    for _ in range(3):
        denoiser.step([other, state])
    latents = denoiser.finish(state)
    (image,) = GlmImageVae(context).generate(replace(prompt, conditioning=latents))
    assert isinstance(image, Image)

    pipeline: Any = GlmImagePipeline.from_pretrained(
        checkpoint, vision_language_encoder=None, processor=None
    )
    pipeline.set_progress_bar_config(disable=True)
    tokens = [encoded.data[f"source_token_ids_{index}"] for index in range(len(images))]
    shapes = [[1, 2 * each.grid.height, 2 * each.grid.width] for each in prior.sources]
    (expected,) = pipeline(
        TEXT,
        image=[PIL.Image.fromarray(each) for each in images],
        height=64,
        width=64,
        guidance_scale=guidance,
        num_inference_steps=3,
        prior_token_ids=torch.from_numpy(encoded.data["prior_token_ids"]),
        prior_token_image_ids=[torch.from_numpy(np.concatenate(tokens))],
        source_image_grid_thw=[torch.tensor(shapes)],
        generator=torch.Generator().manual_seed(3),
    ).images
    np.testing.assert_array_equal(image.pixels, np.array(expected))
    plain = replace(data_of(prompt), image=replace(data_of(prompt).image, images=()))
    alone = denoiser.begin(replace(prompt, data=plain), encoded)
    for _ in range(3):
        denoiser.step([alone])
    assert not torch.equal(alone.latents, state.latents), "the images matter"


@pytest.mark.parametrize("backend", ["cache_dit", "tea_cache"])
def test_caches_of_steps_leave_what_is_read_of_images_alone(
    context: LoadContext,
    editor: GlmImagePrompter,
    backend: Literal["cache_dit", "tea_cache"],
) -> None:
    """A cache that is never near enough changes nothing; one that always is, no other request."""
    prompt = edit(editor, *SOURCES)
    codes = np.zeros((4, 1), np.int64)
    encoder = GlmImageTextEncoder(context)
    (encoded,) = encoder.generate(replace(prompt, conditioning=Latents(tuple(codes))))

    def final(denoiser: GlmImageDenoiser) -> torch.Tensor:
        state = denoiser.begin(prompt, encoded)
        for _ in range(3):
            denoiser.step([state])
        return state.latents

    def cached(threshold: float) -> GlmImageDenoiser:
        config: dict[str, Any] = {"rel_l1_thresh": threshold}
        if backend == "cache_dit":
            config = {"Fn_compute_blocks": 1, "residual_diff_threshold": threshold}
            config["max_warmup_steps"] = 1
        settings = DiffusionSettings(cache_backend=backend, cache_config=config)
        return GlmImageDenoiser(replace(context, diffusion=settings))

    plain = final(GlmImageDenoiser(context))
    assert torch.equal(final(cached(0.0)), plain)
    denoiser = cached(100.0)
    first = final(denoiser)
    assert not torch.equal(first, plain), "steps were skipped"
    assert torch.equal(final(denoiser), first)


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [
        (640, 512, (640, 512)),
        (4096, 2048, (1440, 736)),
        (100, 50, (1024, 512)),
        (5, 9, (512, 928)),
        (1000, 4000, (512, 2048)),
    ],
)
def test_images_are_read_in_whole_codes_that_the_processor_leaves_alone(
    width: int, height: int, expected: tuple[int, int]
) -> None:
    from transformers.models.glm_image.image_processing_pil_glm_image import smart_resize

    found = SourceSizes(512, 2048).of(width, height)
    assert found == expected
    # The processor halves what it reads in patches of 16 pixels.
    halved = smart_resize(found[1], found[0], 16, 512 * 512, 2048 * 2048)
    assert halved == (found[1] // 2, found[0] // 2)


def test_images_of_other_shapes_are_made_to_fit(editor: GlmImagePrompter) -> None:
    sizes = SourceSizes(32, 128)
    with_alpha = np.dstack((picture(50, 40), np.full((40, 50), 255, np.uint8)))
    assert sizes.resized(with_alpha).shape == (32, 64, 3)
    np.testing.assert_array_equal(sizes.resized(SOURCES[0]), SOURCES[0])
    request = ask(TEXT, images=(picture(130, 70),))
    assert editor.choose_size(replace(request, width=None, height=None)) == (128, 64)


@pytest.mark.parametrize(
    ("text", "images", "param"),
    [(TEXT, (picture(300, 32),), "image"), ("an <|image|> of a dog", SOURCES, "prompt")],
)
def test_what_cannot_be_edited_is_refused(
    editor: GlmImagePrompter, text: str, images: tuple[NDArray[np.uint8], ...], param: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        editor.build(ask(text, 64, 64, images=images), 0)
    assert refused.value.param == param
