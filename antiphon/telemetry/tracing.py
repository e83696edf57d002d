"""OpenTelemetry spans where that is installed and wanted; without, nothing is done at all.

Only its API is used: exporters are configured by their own means, ``opentelemetry-instrument``
and the variables ``OTEL_*``.
"""

from collections.abc import AsyncGenerator, Generator, Iterable, Mapping
from contextlib import aclosing, contextmanager
from typing import TypeVar

from antiphon.errors import SettingsError, how_to_install

try:
    from opentelemetry import propagate, trace
except ImportError:  # pragma: no cover
    _IS_INSTALLED = False
else:
    _IS_INSTALLED = True

T = TypeVar("T")

_NAME = "antiphon"
_is_on = False


def switch(*, on: bool) -> None:
    """Make spans from now on, or none any more; raises SettingsError."""
    global _is_on  # spans cross all layers, as the log does
    if on and not _IS_INSTALLED:
        raise SettingsError(
            f"server.traces: OpenTelemetry is not installed; {how_to_install('otel')}."
        )
    _is_on = on


@contextmanager
def span(name: str) -> Generator[None, None, None]:
    """Time a block, as a part of what is around it."""
    if not _is_on:
        yield
        return
    with trace.get_tracer(_NAME).start_as_current_span(name):
        yield


@contextmanager
def request_span(
    name: str, headers: Iterable[tuple[bytes, bytes]], attributes: Mapping[str, str]
) -> Generator[None, None, None]:
    """Time a request, as a part of the client's trace if it sent one."""
    if not _is_on:
        yield
        return
    carrier = {key.decode("latin-1"): value.decode("latin-1") for key, value in headers}
    with trace.get_tracer(_NAME).start_as_current_span(
        name, context=propagate.extract(carrier), kind=trace.SpanKind.SERVER, attributes=attributes
    ):
        yield


def until_first(name: str, stream: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Time how long a stream's first item takes; the stream goes on as it is."""
    return _until_first(name, stream) if _is_on else stream


async def _until_first(name: str, stream: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    timed = trace.get_tracer(_NAME).start_span(name)
    try:
        async with aclosing(stream):
            async for item in stream:
                timed.end()  # a second end would be logged as a warning
                yield item
                break
            async for item in stream:
                yield item
    finally:
        if timed.is_recording():
            timed.end()
