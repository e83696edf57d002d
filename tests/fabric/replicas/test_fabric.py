"""Requests and replicas: who gets one, who is refused, and what is not tried again elsewhere."""

from collections.abc import Collection
from contextlib import aclosing
from pathlib import Path

import numpy as np
import pytest

from antiphon.contracts.types import AudioChunk, Ended, SpeechRequest
from antiphon.errors import InvalidRequestError, OverloadedError, UnavailableError
from antiphon.fabric.replicas.balancer import summed
from antiphon.fabric.replicas.link import ReplicaLimits
from antiphon.fabric.wire.stage_client import StageConnection
from antiphon.pipeline.reservation import Reservation
from antiphon.stages.base import StageRequest, StageStream
from antiphon.telemetry.metrics import Metrics
from antiphon.telemetry.stage_status import StageStatus
from tests.fabric.replicas.replica_streams import TEXT, heard, prompt_of, served, toy, undisturbed
from tests.loops import until


async def test_without_any_replica_a_request_is_told_when_to_come_again(tmp_path: Path) -> None:
    limits = ReplicaLimits(wait_s=0.3, look_s=0.2)
    async with served(tmp_path, num_replicas=1, limits=limits) as (model, _, cluster):
        [stage_id] = cluster.hosted
        [replica] = cluster.hosted[stage_id].processes
        cluster.kill(stage_id, replica, is_replaced=False)
        with pytest.raises(UnavailableError) as raised:
            await heard(model, StageRequest("r", prompt_of(model, 1)))
        assert raised.value.retry_after_s
        assert model.status.num_replicas == 0
        await model.close()


async def test_statuses_are_summed_once_for_each_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums: list[int] = []

    def noted_sum(statuses: Collection[StageStatus]) -> StageStatus:
        sums.append(len(statuses))
        return summed(statuses)

    monkeypatch.setattr("antiphon.fabric.replicas.group.summed", noted_sum)
    async with served(tmp_path) as (model, _, cluster):
        status = model.status
        num_sums = len(sums)
        assert all(model.status == status for _ in range(100))
        assert len(sums) == num_sums
        assert model.status.num_replicas == 2
        [stage_id] = cluster.hosted
        cluster.kill(stage_id, next(iter(cluster.hosted[stage_id].processes)), is_replaced=False)
        await until(lambda: model.status.num_replicas != 2)
        assert len(sums) > num_sums
        await model.close()


async def test_a_full_replica_is_passed_over_and_only_all_of_them_refuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    real_open = StageConnection.open

    def noted_open(connection: StageConnection, stage: str, request: StageRequest) -> StageStream:
        opened.append(request.id)
        return real_open(connection, stage, request)

    monkeypatch.setattr(StageConnection, "open", noted_open)
    settings = toy(max_slots=1).model_copy(update={"max_waiting": 0})
    async with served(tmp_path, settings) as (model, _, _):
        async with aclosing(model.open(StageRequest("a", prompt_of(model, 1, TEXT * 20)))) as a:
            await anext(a)
            async with aclosing(model.open(StageRequest("b", prompt_of(model, 2, TEXT * 20)))) as b:
                await anext(b)
                with pytest.raises(OverloadedError):
                    await heard(model, StageRequest("c", prompt_of(model, 3)))
        await model.close()
    assert len(opened) >= 4
    assert len(set(opened)) == len(opened), "text for one attempt could reach the next"


@pytest.mark.parametrize("is_colocated", [True, False])
async def test_room_is_kept_at_a_replica_until_a_request_takes_it(
    tmp_path: Path, is_colocated: bool
) -> None:
    settings = toy(is_colocated=is_colocated, max_slots=1).model_copy(update={"max_waiting": 0})
    async with served(tmp_path, settings) as (model, _, cluster):
        places = [
            Reservation(model, SpeechRequest("", id=name), Metrics()) for name in ("a", "b", "c")
        ]
        for place in places[:2]:
            await place.take()
        with pytest.raises(OverloadedError):
            await places[2].take()
        request = StageRequest("1", prompt_of(model, 1), stream_id="a", is_later=True)
        assert len(await heard(model, request))
        for stage_id, hosted in tuple(cluster.hosted.items()):
            for replica_id in tuple(hosted.processes):
                cluster.kill(stage_id, replica_id)
        for place in places:
            await place.release()  # also of what is gone
        later = Reservation(model, SpeechRequest("", id="d"), Metrics())
        await later.take()
        await later.release()
        await model.close()


async def test_a_draining_replica_ends_its_streams_and_gets_no_more(tmp_path: Path) -> None:
    expected = await undisturbed([1, 2])
    async with served(tmp_path) as (model, fabric, cluster):
        [stage_id] = cluster.hosted
        async with aclosing(model.open(StageRequest("a", prompt_of(model, 1)))) as items:
            first = await anext(items)
            assert isinstance(first, AudioChunk)
            stream = fabric._streams["a"]
            assert stream._attempt is not None
            draining = stream._attempt.places[0].link.replica.id
            cluster.drain(stage_id, draining)
            await until(lambda: draining not in stream._groups[0].reachable)

            for number in range(5):
                name = f"b{number}"
                found = await heard(model, StageRequest(name, prompt_of(model, 2)))
                np.testing.assert_array_equal(found, expected[2])
            rest = [each.samples async for each in items if isinstance(each, AudioChunk)]
        np.testing.assert_array_equal(np.concatenate([first.samples, *rest]), expected[1])
        assert stream.num_migrations == 0
        await model.close()


async def test_what_is_wrong_with_a_request_is_not_tried_elsewhere(tmp_path: Path) -> None:
    async with served(tmp_path) as (model, fabric, _):
        async with aclosing(model.open(StageRequest("r", prompt_of(model, 1)))) as items:
            await anext(items)
            with pytest.raises(InvalidRequestError, match="open already"):
                await heard(model, StageRequest("r", prompt_of(model, 1)))
            async with model._pool.held(model._stages) as [handle]:
                model.fabric.abort(handle, "r")
                assert [each async for each in items][-1] == Ended("abort")
        assert fabric.num_retries == fabric.num_migrations == 0
        await model.close()


async def test_streams_end_with_the_fabric(tmp_path: Path) -> None:
    async with (
        served(tmp_path) as (model, fabric, _),
        aclosing(model.open(StageRequest("r", prompt_of(model, 1, TEXT * 9)))) as items,
    ):
        await anext(items)
        await fabric.close()
        with pytest.raises(UnavailableError):
            [each async for each in items]
