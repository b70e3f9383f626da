"""What several files about the root of a search share."""

import pytest

from quarterdeck.search.root import splitting


@pytest.fixture
def one_file_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "CHUNK_FILES_MAX", 1)
