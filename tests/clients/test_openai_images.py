"""OpenAI's own SDK draws, edits and chats with a model that makes images, as its users have it."""

import base64
import io
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from antiphon.media.image_codec import decode_image
from tests.pictures import data_uri, pixels_of, png
from tests.servers import OPENAI_KEY

SEEDED: dict[str, Any] = {"extra_body": {"seed": 5}}


def test_images_are_generated(client: openai.OpenAI) -> None:
    answer = client.images.generate(
        model="gpt-image-1",
        prompt="a cat",
        n=2,
        size="1024x1024",
        quality="low",
        output_format="webp",
        output_compression=80,
        background="opaque",
        moderation="low",
        user="me",
        extra_body={"seed": 5, "nvext": {"num_inference_steps": 2}},
    )
    assert answer.data is not None
    assert [pixels_of(image.model_dump()).shape for image in answer.data] == [(1024, 1024, 3)] * 2
    assert (answer.size, answer.quality, answer.output_format) == ("1024x1024", "low", "webp")
    assert answer.usage is not None
    assert answer.usage.input_tokens_details.text_tokens == 2 * len("a cat")


def test_an_image_streams_as_it_forms(client: openai.OpenAI) -> None:
    stream = client.images.generate(
        model="org/toy", prompt="a cat", stream=True, partial_images=2, **SEEDED
    )
    *previews, completed = stream
    for index, event in enumerate(previews):
        assert event.type == "image_generation.partial_image"
        assert event.partial_image_index == index
    assert len(previews) == 2
    assert completed.type == "image_generation.completed"
    assert completed.usage.total_tokens > 0
    whole = client.images.generate(model="org/toy", prompt="a cat", **SEEDED)
    assert whole.data is not None
    assert completed.b64_json == whole.data[0].b64_json


def test_an_image_is_fetched_by_its_address(client: openai.OpenAI) -> None:
    answer = client.images.generate(
        model="dall-e-3", prompt="a cat", response_format="url", style="vivid", **SEEDED
    )
    assert answer.data is not None
    url = answer.data[0].url
    assert url is not None
    file = httpx.get(url, headers={"Authorization": f"Bearer {OPENAI_KEY}"})
    assert decode_image(file.content, max_pixels=64 * 64).shape == (64, 64, 3)


def test_images_are_edited(client: openai.OpenAI) -> None:
    def file(name: str) -> io.BytesIO:
        opened = io.BytesIO(png(value=200))
        opened.name = name
        return opened

    mask = io.BytesIO(png(value=255))
    mask.name = "mask.png"
    one = client.images.edit(image=file("a.png"), prompt="a cat", mask=mask, **SEEDED)
    assert one.data is not None
    edited = pixels_of(one.data[0].model_dump())
    assert not np.array_equal(edited, np.full_like(edited, 200))
    several = client.images.edit(
        model="org/toy", image=[file("a.png"), file("b.png")], prompt="a cat", size="32x32"
    )
    assert several.data is not None
    assert pixels_of(several.data[0].model_dump()).shape == (32, 32, 3)
    *_, last = client.images.edit(image=file("a.png"), prompt="a cat", stream=True, **SEEDED)
    assert last.type == "image_edit.completed"
    assert last.usage.total_tokens > 0


def test_a_chat_answers_with_an_image(client: openai.OpenAI) -> None:
    content: list[Any] = [
        {"type": "text", "text": "a cat"},
        {"type": "image_url", "image_url": {"url": data_uri(png())}},
    ]
    messages: list[Any] = [{"role": "user", "content": content}]
    drawn = {"modalities": ["image"], "seed": 5, "num_inference_steps": 4}
    more: dict[str, Any] = {"extra_body": drawn}
    answer = client.chat.completions.create(model="org/toy", messages=messages, **more)
    parts: Any = answer.choices[0].message.content
    assert pixels_of(parts[0]["image_url"]["url"]).shape == (64, 64, 3)
    stream = client.chat.completions.create(model="org/toy", messages=messages, stream=True, **more)
    contents: list[Any] = [chunk.choices[0].delta.content for chunk in stream]
    (found,) = [each for each in contents if each]
    assert found == parts


def test_errors_are_those_of_the_sdk(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="multiples of 8") as wrong:
        client.images.generate(model="org/toy", prompt="a cat", extra_body={"size": "9x9"})
    assert wrong.value.param == "size"
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.images.generate(model="unheard", prompt="a cat")
    with pytest.raises(openai.BadRequestError, match="readable PNG, JPEG or WebP"):
        client.images.edit(image=base64.b64decode(b"AAAA"), prompt="a cat")
