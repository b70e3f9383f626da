"""What may be shown, and how when the value objects."""

import doctest
from types import ModuleType

import pytest

from quarterdeck.telemetry import masking
from quarterdeck.telemetry.masking import MASK, as_text, is_secret, masked, masked_text
from quarterdeck.telemetry.metrics import exemplars


@pytest.mark.parametrize("module", [masking, exemplars], ids=["masking", "exemplars"])
def test_the_examples_in_the_code_are_true(module: ModuleType) -> None:
    results = doctest.testmod(module)
    assert (results.failed, results.attempted > 0) == (0, True)


@pytest.mark.parametrize(
    "name",
    [
        "token",
        "TOKEN",
        "Authorization",
        "proxy-authorization",
        "aws_secret_access_key",
        b"X-Auth-Token",
        "password",
        "client_secret",
        "APIKEY",
        "x-api-key",
        "passwd",
        "private_key",
        "secret_key",
    ],
)
def test_names_of_secrets_are_known_in_every_spelling(name: object) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["tokens", "token_count", "mytoken", "authorization_kind", "", b"accept", 7, None])
def test_names_that_only_resemble_those_of_secrets_are_not(name: object) -> None:
    assert not is_secret(name)


def test_what_was_given_is_not_changed() -> None:
    given = {"token": "s3cret", "list": [("token", "s3cret")]}
    assert masked(given) == {"token": MASK, "list": [["token", MASK]]}
    assert given == {"token": "s3cret", "list": [("token", "s3cret")]}


def test_what_lies_too_deep_is_masked() -> None:
    deep: object = "s3cret"
    for _ in range(20):
        deep = [deep]
    assert "s3cret" not in as_text(deep)
    assert MASK in as_text(deep)


def test_a_text_stays_as_it_is_and_anything_else_is_shown_by_its_repr() -> None:
    assert as_text("plain words") == "plain words"
    assert as_text(b"bytes") == "b'bytes'"
    assert as_text({"token": 1, "a": 2}) == "{'token': '***', 'a': 2}"


@pytest.mark.parametrize(
    "text",
    [
        "password = 'it''s hush'",
        '{password="a\\"hush"}',
        '{"password": "a\\"hush"}',
        "{password=`a hush`}",
        "password = e'hush'",
        "password = $$a hush$$",
        "password in ('x', 'hush')",
        "password not in ('x', 'a)hush')",
        "password like 'hush%'",
        "password <> 'hush'",
        'password = ("hush")',
        "password = concat('a', 'hush')",
        "create secret (type s3, key_id 'x', secret 'hush')",
        "attach 'x' (encryption_key 'hush')",
        "'https://host/x?X-Amz-Expires=9&X-Amz-Signature=hush'",
        "AccountName=x;AccountKey=hush==;EndpointSuffix=x",
        "accessToken=hush OR SECRETKEY=hush",
        "pwd=hush",
        "Authorization: Token hush",
        '"Bearer hush.hush.hush.hush" | count()',
        "postgres://user:a@hush@host/x",
        "s3://KEY:hush/hush+x@bucket/x",
    ],
)
def test_no_part_of_a_secret_is_left_in_a_text(text: str) -> None:
    shown = masked_text(text)
    assert "hush" not in shown
    assert MASK in shown


@pytest.mark.parametrize(
    "text",
    [
        'sum by (token) (rate(tokens_total{token_kind="a"}[5m]))',
        "select mytoken, password from files where passwords = 3 and a in ('token', 'b')",
        "read_csv('http://host:9000/mail@example/x')",
        'level=error "the bearer of a token" | count() by signature',
    ],
)
def test_a_text_without_a_secret_stays_whole(text: str) -> None:
    assert masked_text(text) == text
