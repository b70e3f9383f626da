"""The first broken promise of a run."""

from quarterdeck.core.ids import WorkId


class Violation(Exception):
    """A promise was broken."""

    def __init__(self, message: str, work_id: WorkId | None = None) -> None:
        super().__init__(message)
        self.work_id = work_id


class Verdict:
    """Whoever watches a run has one."""

    def __init__(self) -> None:
        self.found: Violation | None = None
        """The first broken promise. It ends the run, even if the code it came up in swallows it."""

    def violated(self, message: str, work_id: WorkId | None = None) -> Violation:
        """A promise was broken: raise what this returns."""
        violation = Violation(message, work_id)
        self.found = self.found or violation
        return violation

    def stop_if_violated(self) -> None:
        if self.found is not None:
            raise self.found
