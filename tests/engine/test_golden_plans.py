"""Plans of simulated mixed traffic are, to the byte, those that were recorded.

A change that is meant to plan otherwise records the digests again: ``python -m
tests.engine.plan_record 30``.
"""

import pytest

from tests.engine.plan_record import SCENARIOS, Recording

DURATION_S = 30.0
DIGESTS = {
    "frames": "702d6ba81821b7dad9ae387075127f5cb1e38bdf8b55bc945dab3bf4b31733e3",
    "causal": "f8e2b2fa80dd1117d8553b99ed54043b5270639af8ca99c727c78fdbc7c14147",
    "causal, few sizes": "5b151a1cccd09c6ff326cb5a2c2b315fcd333e777b9f49579677360677c6730c",
    "look-ahead": "3dc34afc63f95026f89a8d693efe957a42c0e4b93081c8f855938e3c49443d2f",
    "upstream": "01e41e6ba4de869ec89392243c89afff85eb576a67424afb356dec23660a9de8",
    "upstream, look-ahead": "6456d84fb2b23d1c645964750e93593dd33289c048b2ee16ab3ae57b28e97908",
    "elastic": "86c5843fddd532c1f239b2c643e5f898d52fa624f404b42537650d9488d6ef0c",
    "elastic, grouped": "7203678172a9ed67eac28091ef434a2a10219d4743a9d457646ae0ae214f63b7",
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_plans_are_those_that_were_recorded(name: str) -> None:
    recording = Recording(SCENARIOS[name], DURATION_S)
    assert recording.run() == DIGESTS[name]
    assert {"stop", "length", "error", "aborted", "refused"} <= set(recording.num_events)
    assert recording.num_events["preempted"] > 0
