"""How tests load a reference, with a resolver and settings of their own."""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Any

from antiphon.config import ReferenceSettings
from antiphon.media import addresses
from antiphon.media.references import ReferenceLoader

TRUSTING_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
BODY = bytes(range(256)) * 40


def audio_use(settings: ReferenceSettings) -> addresses.ReferenceUse:
    return addresses.ReferenceUse(
        title="reference audio", param="ref_audio", accept="audio/*", max_bytes=settings.max_bytes
    )


async def loading(
    reference: str, resolve: addresses.Resolve = addresses.resolve_host, **changes: Any
) -> bytes:
    settings = ReferenceSettings(**changes)
    loader = ReferenceLoader(settings, resolve=resolve, ssl_context=TRUSTING_NOBODY)
    try:
        return await loader.load(reference, audio_use(settings))
    finally:
        loader.close()


def loaded(reference: str, **changes: Any) -> bytes:
    return asyncio.run(loading(reference, **changes))


def resolving(**answers: Sequence[str]) -> addresses.Resolve:
    """Return a resolver that knows these hosts only (``_`` stands for a dot)."""
    known = {host.replace("_", "."): list(found) for host, found in answers.items()}

    async def resolve(host: str, port: int) -> Sequence[str]:
        if host not in known:
            raise OSError("no such host")
        return known[host]

    return resolve
