"""How soon voices of recordings are heard over HTTP: ``python -m tests.bench.clone_speed``.

A server of our own is asked with recordings of five seconds that it has never had, one at a time
and many at once, and with each of the former once more.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict

from antiphon.cli.own_server import own_server
from antiphon_bench.connection import SpeechClient
from antiphon_bench.serve import target_of
from antiphon_bench.summary import Percentiles
from tests.bench.peer import peer_flags, report, weights_of
from tests.recordings import data_uri, wav

TEXT = "The kettle is on, and somebody is knocking at the door."
_REFERENCE_S = 5.0
_NUM_WARMING = 3


class Cloning:
    def __init__(self, url: str) -> None:
        self._url = url
        self._num_recordings = 0

    def new(self, count: int) -> list[SpeechClient]:
        """Return clients with recordings that nobody has had."""
        clients = []
        for _ in range(count):
            recording = data_uri(wav(_REFERENCE_S, seed=self._num_recordings))
            self._num_recordings += 1
            fields = {
                "response_format": "pcm",
                "ref_audio": recording,
                "ref_text": TEXT,
                "max_new_tokens": 20,
            }
            clients.append(SpeechClient(target_of(self._url, api_key=None, fields=fields)))
        return clients

    async def first_audio_ms(self, clients: Sequence[SpeechClient]) -> list[float]:
        """Ask all at once; return when the first audio of each was there.

        Raises:
            RuntimeError: an answer was none.
        """
        asked = [each.speak(0, TEXT, time.monotonic()) for each in clients]
        records = await asyncio.gather(*asked)
        for record in records:
            if record.outcome != "ok":
                raise RuntimeError(record.message)
        return [(each.arrivals_s[0] - each.sent_s) * 1000 for each in records]


async def measured(url: str, rounds: int, at_once: int) -> dict[str, list[float]]:
    """Return times to first audio, in milliseconds, by how recordings came."""
    cloning = Cloning(url)
    alone: list[float] = []
    again: list[float] = []
    together: list[float] = []
    for number in range(_NUM_WARMING + 4 * rounds):
        (client,) = cloning.new(1)
        first = await cloning.first_audio_ms([client])
        second = await cloning.first_audio_ms([client])
        if number >= _NUM_WARMING:
            alone, again = [*alone, *first], [*again, *second]
    for _ in range(rounds):
        together += await cloning.first_audio_ms(cloning.new(at_once))
    return {"one": alone, "again": again, f"{at_once} at once": together}


def main() -> None:
    parser = peer_flags(__doc__.split("\n")[0], "1.7b")
    parser.add_argument("--rounds", type=int, default=6, help="of recordings that come at once")
    parser.add_argument("--at-once", type=int, default=16, help="recordings of a round")
    parser.add_argument("--front-ends", type=int, default=0, help="of the server; 0: one process")
    given = parser.parse_args()
    model = str(weights_of(given, "qwen3_tts", "base"))
    processes = ("--front-ends", str(given.front_ends)) if given.front_ends else ()
    with own_server([model, "--device", given.device, *processes]) as url:
        times_ms = asyncio.run(measured(url, given.rounds, given.at_once))
    found = {name: Percentiles.of(each) for name, each in times_ms.items()}
    results = [
        {"recordings": name, "max_ms": max(times_ms[name]), **asdict(each)}
        for name, each in found.items()
        if each is not None
    ]
    report(given, "antiphon", results)


if __name__ == "__main__":
    main()
