"""Addresses that the client takes."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.config.addresses import parse_url
from quarterdeck.http.client import Origin, split_address
from tests.http.client_scene import looped, refusal

# Addresses

HOST_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"
VISIBLE = "".join(map(chr, range(0x21, 0x7F)))
hosts = st.text(HOST_CHARACTERS, min_size=1) | st.ip_addresses(v=6).map(lambda address: f"[{address}]")
targets = st.text(VISIBLE.replace("#", "")).map(lambda text: "/" + text)
ports = st.integers(0, 99999).map(lambda port: f":{port}") | st.just("")
addresses = st.tuples(st.sampled_from(["http://", "https://"]), hosts, ports, targets | st.just("")).map("".join)
intruders = st.text(st.sampled_from("\r\n\t \0\x7f\x85\u2028#?@:/[]٣é") | st.characters(), min_size=1, max_size=3)


@st.composite
def disturbed(draw: st.DrawFn) -> str:
    address = draw(addresses)
    place = draw(st.integers(0, len(address)))
    return address[:place] + draw(intruders) + address[place:]


@given(st.text() | addresses | disturbed())
def test_nothing_that_is_accepted_as_an_address_can_be_more_than_a_target_and_a_host(text: str) -> None:
    try:
        origin, target = split_address(text)
    except ValueError:
        return
    assert origin.scheme in {"http", "https"}
    assert 0 < origin.port <= 65535
    assert target.startswith("/")
    assert set(target) <= set(VISIBLE) - {"#"}
    assert set(origin.authority) <= set(HOST_CHARACTERS) - set("ABCDEFGHIJKLMNOPQRSTUVWXYZ") | set("[]:")
    assert text.lower().startswith(f"{origin.scheme}://{origin.host}")


@given(st.sampled_from(["http", "https"]), hosts, st.integers(1, 65535), targets)
def test_a_plain_address_is_taken_apart(scheme: str, host: str, port: int, target: str) -> None:
    assert split_address(f"{scheme}://{host}:{port}{target}") == (Origin(scheme, host.lower(), port), target)
    default = 443 if scheme == "https" else 80
    assert split_address(f"{scheme}://{host}{target}") == (Origin(scheme, host.lower(), default), target)
    assert split_address(f"{scheme}://{host.upper()}") == (Origin(scheme, host.lower(), default), "/")


@pytest.mark.parametrize(
    "form", ["http://w{}1", "http://{}", "http://w1{}", "http://w1/{}x", "http://[::1{}]:1", "{}://w1"]
)
def test_what_a_worker_may_advertise_can_be_fetched_from(form: str) -> None:
    for character in (*VISIBLE, " ", "\n", "é", "٣", "%25eth0", "s", "HTTP", ""):
        try:
            advertised = parse_url(form.format(character))
        except ValueError:
            continue
        origin, _ = split_address(f"{advertised}/artifacts/x")
        assert origin == split_address(advertised)[0]


def test_brackets_are_for_an_address_of_ip_version_6() -> None:
    origin, target = split_address("http://[::FFFF:1.2.3.4]:81/x")
    assert (origin.authority, target) == ("[::ffff:1.2.3.4]:81", "/x")


@looped
async def test_an_address_of_ip_version_6_is_connected_to_without_its_brackets() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IP version 6")
    why = await refusal(split_address("http://[::1]:1/")[0])
    assert "Name" not in why


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http",
        "http:/host/",
        "//host/",
        "http:///x",
        "http://:80/",
        "http://host:/",
        "http://host:0/",
        "http://host:65536/",
        "http://host:99999/",
        "http://host:000080/",
        "http://host:-1/",
        "http://host:٣/",
        "http://user@host/",
        "http://user:secret@host/",
        "http://host/#fragment",
        "http://host#fragment",
        "http://host?query",
        "http://host/a b",
        "http://ho st/",
        " http://host/",
        "http://host/ ",
        "http://host/\r\nX: y",
        "http://host/\n",
        "http://host\r\n",
        "http://host/\t",
        "http://host/\0",
        "http://host/\x7f",
        "http://host/é",
        "http://höst/",
        "http://[::1/",
        "http://::1/",
        "http://[]/",
        "http://[::1]x/",
        "http://[::1%25eth0]/",
        "http://host\\@other/",
        "HTTP://host/",
        "ftp://host/",
        "file:///etc/passwd",
        "unix://socket",
        "javascript:alert(1)",
    ],
)
def test_what_is_no_plain_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"it is not a plain http or https address|there is no port"):
        split_address(text)
