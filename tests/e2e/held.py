"""What a process has open, before and after."""

from dataclasses import dataclass

from tests.e2e.crew import Member

SPARE_THREADS = 8
SPARE_DESCRIPTORS = 16
"""Pools of threads and of connections fill up to their limits, and stay."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a process has open."""

    threads: int
    descriptors: int

    @classmethod
    def by(cls, member: Member) -> "Held":
        return cls(member.figures.num_threads(), member.figures.num_fds())

    def is_about(self, before: "Held", spare_threads: int = SPARE_THREADS) -> bool:
        return (
            self.threads <= before.threads + spare_threads
            and self.descriptors <= before.descriptors + SPARE_DESCRIPTORS
        )
