"""Addresses of processes: ``unix:PATH``, or ``tcp:HOST:PORT`` (``tcp:[::1]:9000``)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from antiphon.errors import SettingsError

_MAX_PATH_BYTES = 107  # of the name of a Unix socket


@dataclass(frozen=True, slots=True)
class WireAddress:
    """Address: ``path`` of a Unix socket, or host and port.

    Attributes:
        path: path of a Unix socket; ``None``: a TCP address.
        port: TCP port; 0: a free one.
    """

    path: Path | None = None
    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse an address; raises SettingsError."""
        scheme, _, rest = text.partition(":")
        if scheme == "unix" and rest:
            if len(rest.encode()) > _MAX_PATH_BYTES:
                raise SettingsError(
                    f"The name of the socket '{rest}' is longer than {_MAX_PATH_BYTES} bytes:"
                    " choose a shorter folder."
                )
            return cls(Path(rest))
        host, _, port = rest.rpartition(":")
        if scheme == "tcp" and host and port.isdecimal() and int(port) < 65536:
            return cls(None, host.removeprefix("[").removesuffix("]"), int(port))
        raise SettingsError(f"'{text}' is no address: unix:PATH, or tcp:HOST:PORT.")

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        return f"tcp:{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"
