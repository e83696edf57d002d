"""Public or not: every form of address, judged alike on every Python."""

import ipaddress
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.media.addresses import is_public

PUBLIC = ["8.8.8.8", "1.1.1.1", "100.63.255.255", "172.15.0.1", "172.32.0.1", "223.255.255.255"]
PUBLIC += ["2606:4700::1111", "2a00:1450:4001::1", "64:ff9b::808:808"]
NOT_PUBLIC = [
    *("0.0.0.0", "127.0.0.1", "127.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255"),
    *("192.168.1.1", "169.254.169.254", "169.254.170.2", "100.64.0.1", "100.100.100.200"),
    *("168.63.129.16", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "192.88.99.1"),
    *("::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:8.8.8.8"),
    *("fe80::1", "fe80::1%1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1"),
    *("2001::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "3fff::1", "100::1", "5f00::1"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "64:ff9b:1::808:808"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@settings(deadline=None, derandomize=True)
@given(st.ip_addresses(v=4))
def test_no_special_ipv4_address_is_public(address: IPv4Address) -> None:
    if not address.is_global or address.is_multicast:
        assert not is_public(address)


@settings(deadline=None, derandomize=True)
@given(st.ip_addresses(v=6))
def test_no_special_ipv6_address_is_public(address: IPv6Address) -> None:
    is_translated = address in ipaddress.ip_network("64:ff9b::/96")
    if not is_translated and (not address.is_global or address.is_multicast):
        assert not is_public(address)


@settings(deadline=None, derandomize=True)
@given(st.ip_addresses(v=4))
def test_an_embedded_address_is_never_more_public_than_itself(address: IPv4Address) -> None:
    for prefix in ("::", "::ffff:0:0", "64:ff9b::", "64:ff9b:1::"):
        embedded = IPv6Address(int(IPv6Address(prefix)) + int(address))
        assert not is_public(embedded) or is_public(address)
    assert not is_public(IPv6Address((0x2002 << 112) + (int(address) << 80)))
