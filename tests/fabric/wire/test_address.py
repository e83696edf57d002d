"""Addresses are read and written alike, and wrong ones are refused."""

from pathlib import Path

import pytest

from antiphon.errors import SettingsError
from antiphon.fabric.wire.address import WireAddress


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/antiphon/a.sock", WireAddress(Path("/run/antiphon/a.sock"))),
        ("tcp:10.0.0.3:9000", WireAddress(None, "10.0.0.3", 9000)),
        ("tcp:stage-1.cluster:0", WireAddress(None, "stage-1.cluster", 0)),
        ("tcp:[::1]:9000", WireAddress(None, "::1", 9000)),
    ],
)
def test_addresses_are_read_and_written_alike(text: str, address: WireAddress) -> None:
    assert WireAddress.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "unix:", "tcp:", "tcp:host", "tcp::1", "tcp:host:x", "tcp:host:70000", "http://a"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"unix:PATH, or tcp:HOST:PORT"):
        WireAddress.parse(text)


def test_a_name_too_long_for_a_socket_is_refused() -> None:
    with pytest.raises(SettingsError, match="shorter folder"):
        WireAddress.parse("unix:/" + "a" * 107)
