"""What is referred to by its dotted path is loaded when it is asked for."""

import string

import pytest

from quarterdeck.core.named import Named


def test_what_a_path_names_is_loaded() -> None:
    letters: Named[str] = Named("string:ascii_letters")
    assert letters.load() is string.ascii_letters


@pytest.mark.parametrize(
    "path, error", [("string:not_there", AttributeError), ("quarterdeck.not_there:x", ModuleNotFoundError)]
)
def test_nothing_is_loaded_before_and_a_wrong_path_is_an_error(path: str, error: type[Exception]) -> None:
    named: Named[object] = Named(path)
    with pytest.raises(error):
        named.load()
