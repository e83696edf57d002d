"""Connecting to Ray."""

import socket

import pytest

pytest.importorskip("ray", reason="Ray is not installed; the 'ray' extra brings it")

from antiphon.errors import SettingsError
from antiphon.fabric.cluster import ray_client
from antiphon.fabric.cluster.ray_client import check_reachable


def test_an_address_at_which_nothing_listens_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_client, "_REACHABLE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        check_reachable(address)
    with pytest.raises(SettingsError, match=rf"nothing answers at {address}"):
        check_reachable(address)


@pytest.mark.parametrize("address", [None, "auto", "local", "ray://127.0.0.1:1"])
def test_what_is_no_address_of_a_host_is_left_to_ray(address: str | None) -> None:
    check_reachable(address)
