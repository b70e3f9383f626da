"""The shared token: read from where it is kept, compared, never shown."""

from pathlib import Path

import pytest

from quarterdeck.core.errors import ErrorCode, QuarterdeckError
from quarterdeck.security.tokens import MIN_LENGTH, SharedToken

SECRET = "correct-horse-battery"


def test_a_file_may_end_its_line(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    assert SharedToken.from_file(path).matches(f"Bearer {SECRET}")


def test_an_environment_variable_is_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", SECRET)
    token = SharedToken.from_environment("A_TOKEN")
    assert token is not None
    assert token.matches(f"Bearer {SECRET}")


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_variable_is_no_token(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("A_TOKEN", value)
    assert SharedToken.from_environment("A_TOKEN") is None
    monkeypatch.delenv("A_TOKEN")
    assert SharedToken.from_environment("A_TOKEN") is None


def test_what_it_sends_it_accepts() -> None:
    token = SharedToken.from_text(SECRET)
    assert token.authorization == f"Bearer {SECRET}"
    assert token.matches(token.authorization)


@pytest.mark.parametrize("header", [f"bearer {SECRET}", f"BEARER   {SECRET}", f" Bearer {SECRET} "])
def test_the_scheme_is_read_without_regard_to_case_and_space(header: str) -> None:
    assert SharedToken.from_text(SECRET).matches(header)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        SECRET,
        f"Basic {SECRET}",
        f"Bearer {SECRET}x",
        f"Bearer {SECRET[:-1]}",
        f"Bearer {SECRET.upper()}",
        f"Bearer {SECRET} {SECRET}",
        "Bearer \xe9\xff",
        "Bearer \udcff",
    ],
)
def test_anything_else_does_not_match(header: str | None) -> None:
    assert not SharedToken.from_text(SECRET).matches(header)


def test_it_is_not_in_its_representation() -> None:
    token = SharedToken.from_text(SECRET)
    assert SECRET not in f"{token!r} {token}"


def test_the_shortest_token_has_sixteen_characters() -> None:
    SharedToken.from_text("x" * MIN_LENGTH)
    with pytest.raises(QuarterdeckError, match="it has 15 characters, fewer than 16"):
        SharedToken.from_text("x" * (MIN_LENGTH - 1))


@pytest.mark.parametrize(
    "text", ["", "two words that are long enough", "one line of it\nand another", "naïve-naïve-naïve"]
)
def test_an_unusable_token_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(QuarterdeckError) as refused:
        SharedToken.from_file(path)
    assert refused.value.code is ErrorCode.INVALID_ARGUMENT
    assert str(path) in str(refused.value)
    assert not text or text not in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(QuarterdeckError, match="nowhere cannot be read: No such file"):
        SharedToken.from_file(tmp_path / "nowhere")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(QuarterdeckError, match="binary cannot be read: it is not text"):
        SharedToken.from_file(tmp_path / "binary")
