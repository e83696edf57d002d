"""A file as other vendors' clients want it, while it is made."""

from contextlib import aclosing

from antiphon.api.encoding import encoded
from antiphon.api.state import ServerState
from antiphon.api.streaming import Pieces
from antiphon.api.wire_format import WireFormat
from antiphon.types import Ended, SpeechStream


async def file_pieces(events: SpeechStream, format: WireFormat, server: ServerState) -> Pieces:
    """Yield a file's bytes."""
    native_hz = server.speech.model(None).capabilities.sample_rate_hz
    rate_hz = format.sample_rate_hz or native_hz
    async with aclosing(encoded(events, format.coded_as, rate_hz, server.encoders)) as stream:
        async for item in stream:
            if not isinstance(item, Ended):
                yield format.finished(item)
