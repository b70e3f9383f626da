"""The questions to the store: one at a time, and which of them an answer belongs to.

It owns how far the store is known, whether there is more to read, and when a store that has failed is asked again. It
takes what is to be proposed from the proposals. What the answers say about things is the machine's affair.
"""

from quarterdeck.core.reconcile.leader.desk import LeaderDesk
from quarterdeck.core.reconcile.leader.effects import Commit, Load
from quarterdeck.core.reconcile.leader.proposals import Proposals
from quarterdeck.core.reconcile.leader.timers import StoreTimer
from quarterdeck.core.reconcile.model import NEVER, Revision


class Questions:
    """Call `ask` at the end of each step; give it each answer."""

    def __init__(self, desk: LeaderDesk, proposals: Proposals) -> None:
        self._desk = desk
        self._proposals = proposals
        self._asked: Load | Commit | None = None
        """What the store has not answered yet."""
        self._number = 0
        self._since = NEVER
        """What is known of the store."""
        self._is_stale = False
        """The store knows more than we do."""
        self._has_just_read = False
        """Nothing was proposed since the store was read."""
        self._rests = False
        """It failed a moment ago."""
        self._failures = 0
        """In a row."""

    @property
    def is_done(self) -> bool:
        """Whether there is no answer to wait for and nothing to read."""
        return self._asked is None and not self._is_stale

    def ask(self) -> None:
        """One thing at a time: first what is not known, then what is to be proposed. Who declares without a pause keeps
        nobody waiting: what is new is read at most every other time, if there is something to propose."""
        if not self._desk.leads or self._asked is not None or self._rests:
            return
        if not self._is_stale or (self._has_just_read and self._since != NEVER):
            changes = self._proposals.changes()
            if changes:
                self._has_just_read = False
                self._ask(Commit(self._next_number(), self._desk.leading, changes))
                return
        if self._is_stale:
            self._is_stale = False
            self._ask(Load(self._next_number(), self._desk.leading, self._since))

    def look(self) -> None:
        """Somebody may have changed something, or the store has rested for long enough."""
        self._rests, self._is_stale = False, True

    def heard_of_more(self) -> None:
        """Somebody has declared something."""
        self._is_stale = True

    def answered(self, number: int) -> Load | Commit | None:
        """What this answers. An answer to what an earlier leadership asked is nobody's."""
        asked = self._asked
        if asked is None or asked.number != number:
            return None
        self._asked = None
        return asked

    def has_read(self, revision: Revision) -> None:
        """All that was asked for, up to this revision."""
        self._failures = 0
        self._since, self._has_just_read = revision, True
        self._desk.deadlines.set(StoreTimer(), self._desk.now + self._desk.config.look_s)

    def has_committed(self) -> None:
        """Others may have committed something before it, so the next look still begins where the last one ended."""
        self._failures = 0
        self._proposals.trust()

    def read_anew(self, number: int) -> Load | Commit | None:
        """What was asked came to nothing, or nobody knows to what."""
        asked = self.answered(number)
        if isinstance(asked, Commit):
            self._proposals.again(asked.changes)
        if asked is not None:
            self._since, self._is_stale = NEVER, True
        return asked

    def failed(self, number: int) -> None:
        """The store rests for a while, and nobody knows what became of what was asked."""
        asked = self.read_anew(number)
        if asked is None:
            return
        self._failures += 1
        self._rests = True
        self._desk.deadlines.set(StoreTimer(), self._desk.again_at(self._failures))
        if isinstance(asked, Commit):
            self._proposals.suspect(asked.changes)

    def clear(self) -> None:
        """Nothing is asked, and nothing is known."""
        self._asked = None
        self._since, self._is_stale = NEVER, True
        self._rests, self._failures = False, 0
        self._desk.deadlines.cancel(StoreTimer())

    # Inside

    def _ask(self, question: Load | Commit) -> None:
        self._asked = question
        self._desk.do(question)

    def _next_number(self) -> int:
        self._number += 1
        return self._number
