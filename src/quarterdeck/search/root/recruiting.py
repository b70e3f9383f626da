"""Several ways to recruit as one: whoever is first is asked for all, and the next for what is missing then."""

from collections.abc import Sequence

from quarterdeck.recruiter.model import Recruited
from quarterdeck.recruiter.ports import Recruiting


class OneAfterTheOther:
    """Implements `ports.Recruiting`."""

    def __init__(self, recruiters: Sequence[Recruiting]) -> None:
        self._recruiters = recruiters

    async def recruit(self, number: int, label: str, tenant: str) -> Sequence[Recruited]:
        found: list[Recruited] = []
        for recruiter in self._recruiters:
            if len(found) < number:
                found += await recruiter.recruit(number - len(found), label, tenant)
        return found
