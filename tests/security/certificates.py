"""Certificates for tests: written as the three files that a process is given."""

from datetime import UTC, datetime
from pathlib import Path

import trustme

THE_PAST = datetime(2020, 1, 1, tzinfo=UTC)
THE_FUTURE = datetime(2900, 1, 1, tzinfo=UTC)


class Crew:
    """An authority, and files signed by it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.authority = folder / "authority.pem"
        self.ca.cert_pem.write_to_path(str(self.authority))

    def issue(
        self, name: str, *, not_before: datetime | None = None, not_after: datetime | None = None
    ) -> tuple[Path, Path]:
        """The files of a certificate for this machine, and its key."""
        leaf = self.ca.issue_cert("localhost", "127.0.0.1", not_before=not_before, not_after=not_after)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        leaf.cert_chain_pems[0].write_to_path(str(certificate))
        leaf.private_key_pem.write_to_path(str(key))
        return certificate, key
