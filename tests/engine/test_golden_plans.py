"""Plans of simulated mixed traffic are, to the byte, those that were recorded.

A change that is meant to plan otherwise records the digests again: ``python -m
tests.engine.plan_record 30``.
"""

import pytest

from tests.engine.plan_record import SCENARIOS, Recording

DURATION_S = 30.0
DIGESTS = {
    "frames": "6d0eb68a3b51505264c978008f2756c6bade78ff79864ce7d0699f78a6161627",
    "causal": "b4bfb7d668ed46ef90b644a015c7873f0a9f013133c190609d5af9c6afa43ce9",
    "causal, few sizes": "25abe97ff646294f18453a827fdfe3dc3d5bd2a242d6099b2062142c1d2ffbcc",
    "look-ahead": "3dc34afc63f95026f89a8d693efe957a42c0e4b93081c8f855938e3c49443d2f",
    "upstream": "01e41e6ba4de869ec89392243c89afff85eb576a67424afb356dec23660a9de8",
    "upstream, look-ahead": "6456d84fb2b23d1c645964750e93593dd33289c048b2ee16ab3ae57b28e97908",
    "elastic": "ed1159cc645ebd54abff11a6c1d027706dba1b54b5bd0b602dddbfddcc03b3b4",
    "elastic, grouped": "7203678172a9ed67eac28091ef434a2a10219d4743a9d457646ae0ae214f63b7",
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_plans_are_those_that_were_recorded(name: str) -> None:
    recording = Recording(SCENARIOS[name], DURATION_S)
    assert recording.run() == DIGESTS[name]
    assert {"stop", "length", "error", "aborted", "refused"} <= set(recording.num_events)
    assert recording.num_events["preempted"] > 0
