"""A pipeline is legal if each stage consumes what the one before produces, however long it is."""

import pytest

from antiphon.contracts.chat import CHAT_VOICE
from antiphon.contracts.family import ItemKind, Ref, StageKind, StageSpec, Task
from antiphon.contracts.types import SpeechRequest
from antiphon.families.registry import families
from antiphon.stages.build import engine_groups

NOTHING = Ref("nowhere:nothing")


def stage(
    name: str, consumes: ItemKind, produces: ItemKind, kind: StageKind = StageKind.GENERATOR
) -> StageSpec:
    return StageSpec(name, kind, consumes, produces, NOTHING)


def task(*pipeline: StageSpec) -> Task:
    return Task(request=SpeechRequest, prompter=NOTHING, pipeline=pipeline)


def test_a_chain_of_any_length_is_legal_if_what_flows_fits() -> None:
    chain = (
        stage("writer", ItemKind.TEXT, ItemKind.TOKENS),
        stage("talker", ItemKind.TOKENS, ItemKind.FRAMES, StageKind.AUTOREGRESSIVE),
        stage("flow", ItemKind.FRAMES, ItemKind.LATENTS),
        stage("vocoder", ItemKind.LATENTS, ItemKind.AUDIO, StageKind.DECODER),
    )
    for length in range(1, len(chain) + 1):
        assert task(*chain[:length]).pipeline == chain[:length]


def test_a_stage_that_consumes_something_else_is_refused() -> None:
    talker = stage("talker", ItemKind.TEXT, ItemKind.FRAMES)
    with pytest.raises(ValueError, match="'vocoder' consumes latents, but 'talker' before it"):
        task(talker, stage("vocoder", ItemKind.LATENTS, ItemKind.AUDIO))


def test_a_task_has_stages_of_different_names() -> None:
    with pytest.raises(ValueError, match="at least one stage"):
        task()
    twice = stage("one", ItemKind.AUDIO, ItemKind.AUDIO)
    with pytest.raises(ValueError, match="names must differ"):
        task(twice, twice)


def test_a_decoder_shares_an_engine_with_what_feeds_it_on_one_device() -> None:
    writer = stage("writer", ItemKind.TEXT, ItemKind.TEXT)
    talker = stage("talker", ItemKind.TEXT, ItemKind.FRAMES, StageKind.AUTOREGRESSIVE)
    codec = stage("codec", ItemKind.FRAMES, ItemKind.AUDIO, StageKind.DECODER)
    chain = (writer, talker, codec)
    assert engine_groups(chain, is_colocated=True) == ((writer,), (talker, codec))
    assert engine_groups(chain, is_colocated=False) == ((writer,), (talker,), (codec,))


def test_every_family_declares_what_its_prompters_read_and_its_stages_make() -> None:
    for family in families():
        assert family.tasks
        for name, declared in family.tasks.items():
            # A chat's own voice reads what another stage computes of the text.
            read = ItemKind.LATENTS if name == CHAT_VOICE else ItemKind.TEXT
            assert declared.pipeline[0].consumes is read
