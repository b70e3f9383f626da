"""Paths that people write mean the same in every process and every folder."""

from pathlib import Path

import pytest

from quarterdeck.paths import whole_location, whole_path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that we are in."""
    folder = (tmp_path / "here").resolve()
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return folder


@pytest.mark.parametrize(
    "text, whole",
    [
        ("data", "here/data"),
        (".", "here"),
        ("not there/../data", "here/data"),
        ("../data", "data"),
        ("~/data", "home/data"),
    ],
)
def test_a_path_is_made_whole(here: Path, text: str, whole: str) -> None:
    assert whole_path(Path(text)) == here.parent / whole


def test_above_a_link_is_above_what_it_leads_to_and_other_links_stay(here: Path) -> None:
    (here / "far" / "folder").mkdir(parents=True)
    (here / "link").symlink_to("far/folder")
    assert whole_path(Path("link/../data")) == here / "far" / "data"
    assert whole_path(Path("link/data")) == here / "link" / "data", "it may lead elsewhere tomorrow"


def test_above_the_root_is_the_root(here: Path) -> None:
    assert whole_path(Path("/../..")) == Path("/")


def test_a_circle_of_links_and_a_home_of_nobody_are_refused(here: Path) -> None:
    (here / "circle").symlink_to("circle")
    for text in ("circle/../data", "~nobody-is-called-this/data"):
        with pytest.raises(ValueError, match=r"circle|home"):
            whole_path(Path(text))


@pytest.mark.parametrize(
    "text, whole",
    [
        ("lake", "here/lake"),
        ("lake/", "here/lake/"),
        ("logs/**/../*.ndjson", "here/logs/*.ndjson"),
        ("file:///srv/a%20b/../lake", "/srv/lake"),
        ("s3://bucket/lake/*.parquet", "s3://bucket/lake/*.parquet"),
    ],
)
def test_a_file_or_a_folder_is_made_whole_and_a_url_stays(here: Path, text: str, whole: str) -> None:
    assert whole_location(text) == (whole if whole.startswith(("/", "s3:")) else f"{here.parent}/{whole}")


def test_above_in_a_url_is_refused() -> None:
    with pytest.raises(ValueError, match="names nothing"):
        whole_location("s3://bucket/lake/../other")
