"""Clusters in virtual time: nothing is lost on the way, and what is too small is the limit."""

from dataclasses import replace
from functools import cache

import pytest

from antiphon.engine.plan import CacheShape
from tests.engine.cluster_simulator import ClusterModel, ClusterReport, simulate_cluster
from tests.engine.simulator import Traffic

CACHE = CacheShape(20_000, 16, 1024)
TRAFFIC = Traffic(2.0, rate_hz=60.0, median_frames=50, max_frames=200)


@cache
def simulated_alone() -> ClusterReport:
    return simulate_cluster(ClusterModel(cache=CACHE), TRAFFIC)


@pytest.mark.parametrize(("talkers", "codecs"), [(3, 0), (1, 1), (2, 2)])
def test_all_audio_arrives_without_a_gap_whatever_the_cluster_is_made_of(
    talkers: int, codecs: int
) -> None:
    report = simulate_cluster(ClusterModel(talkers, codecs, cache=CACHE), TRAFFIC)
    alone = simulated_alone()
    assert (report.num_rejected, report.gapless) == (0, 1.0)
    assert report.num_ended == alone.num_ended
    assert report.audio_s == pytest.approx(alone.audio_s)
    assert alone.num_ended > 80


def test_replicas_serve_what_one_refuses() -> None:
    traffic = replace(TRAFFIC, rate_hz=400.0)
    one, three = (simulate_cluster(ClusterModel(n, cache=CACHE), traffic) for n in (1, 3))
    assert one.num_rejected > 100
    assert three.num_rejected == 0
    assert three.num_ended == one.num_ended + one.num_rejected
    assert three.audio_s > one.audio_s


def test_a_codec_that_is_too_small_refuses_and_frees_its_talkers() -> None:
    report = simulate_cluster(
        ClusterModel(2, 1, codec_slots=4, cache=CACHE), replace(TRAFFIC, rate_hz=200.0)
    )
    assert report.num_rejected > 0
    assert report.num_ended > 0


def test_one_front_end_that_is_too_slow_is_the_limit_and_more_are_not() -> None:
    model = ClusterModel(cache=CACHE, request_s=20e-3, chunk_s=3e-3)
    slow = simulate_cluster(model, TRAFFIC)
    quick = simulate_cluster(replace(model, num_front_ends=8), TRAFFIC)
    assert slow.front_end_load > 1
    assert quick.front_end_load < 0.3
    assert slow.first_audio_s[2] > 3 * quick.first_audio_s[2]
