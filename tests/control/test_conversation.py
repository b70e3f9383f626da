"""One session's traffic: order, numbers, a bounded outbox, and ends that say why."""

import asyncio
from collections.abc import Iterable

import pytest

from quarterdeck.control.conversation import OUTBOX_LIMIT, Conversation
from quarterdeck.control.link import Envelope, Message
from quarterdeck.core.ids import SessionId
from quarterdeck.core.workcoord.messages import CoordinatorBeat, CreditConfirmed, WorkerBeat
from tests.crew.played import ACCEPTING, PlayedLink, now_s, played, settle

BEAT = WorkerBeat(ACCEPTING)


def _talking(link: PlayedLink) -> "tuple[Conversation, list[Message], asyncio.Task[str]]":
    conversation = Conversation(link)
    conversation.session_id = link.session_id = SessionId("s1")
    taken: list[Message] = []

    def take(messages: Iterable[Message]) -> None:
        taken.extend(messages)

    return conversation, taken, asyncio.create_task(conversation.talk(take))


@played
async def test_messages_sent_together_travel_in_one_envelope() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    for credit in range(5):
        conversation.send(CreditConfirmed(credit))
    assert await link.hear() == tuple(CreditConfirmed(credit) for credit in range(5))
    conversation.send(BEAT)
    assert await link.hear() == (BEAT,)
    assert [envelope.sequence for envelope in link.sent] == [0, 1]
    assert {envelope.session_id for envelope in link.sent} == {"s1"}
    link.hang_up()
    assert await talk == "hung up"
    assert link.closed


@played
async def test_a_burst_is_split_into_envelopes_of_limited_size_and_keeps_its_order() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    burst = [CreditConfirmed(credit) for credit in range(2000)]
    for message in burst:
        conversation.send(message)
    conversation.finish()
    await talk
    assert link.said_by_driver() == burst
    assert [len(envelope.messages) for envelope in link.sent] == [512, 512, 512, 464]
    assert [envelope.sequence for envelope in link.sent] == [0, 1, 2, 3]


@played
async def test_everything_heard_is_taken_in_order_also_what_came_before_the_talk() -> None:
    link = PlayedLink()
    conversation = Conversation(link)
    conversation.unread = [CreditConfirmed(0)]
    taken: list[Message] = []
    link.say(CreditConfirmed(1), CreditConfirmed(2))
    link.say(CreditConfirmed(3))
    link.hang_up()
    assert await conversation.talk(taken.extend) == "hung up"
    assert taken == [CreditConfirmed(credit) for credit in range(4)]


@played
async def test_an_envelope_out_of_turn_ends_the_session() -> None:
    link = PlayedLink()
    _, taken, talk = _talking(link)
    link.say(BEAT)
    link.say_envelope(Envelope(SessionId("s1"), 2, (CoordinatorBeat(),)))
    assert await talk == "envelope 2 came where 1 was due"
    assert taken == [BEAT]
    assert link.closed


@played
async def test_a_repeated_envelope_ends_the_session() -> None:
    link = PlayedLink()
    _, taken, talk = _talking(link)
    link.say_envelope(Envelope(SessionId("s1"), 0, (BEAT,)))
    link.say_envelope(Envelope(SessionId("s1"), 0, (BEAT,)))
    assert await talk == "envelope 0 came where 1 was due"
    assert taken == [BEAT]


@played
async def test_an_envelope_of_another_session_ends_the_session() -> None:
    link = PlayedLink()
    _, taken, talk = _talking(link)
    link.say_envelope(Envelope(SessionId("s0"), 0, (BEAT,)))
    assert await talk == "an envelope of session s0 came on session s1"
    assert taken == []
    assert link.closed


@played
async def test_a_peer_that_does_not_read_is_cut_off_and_the_outbox_stays_bounded() -> None:
    link = PlayedLink(room=1)
    conversation, _, talk = _talking(link)
    for number in range(3 * OUTBOX_LIMIT):
        conversation.send(BEAT)
        if number % 1000 == 0:
            await settle()
        assert len(conversation._outbox) <= OUTBOX_LIMIT  # pyright: ignore[reportPrivateUsage]
    assert link.closed
    assert await talk == "the peer does not read"
    assert len(link.sent) == 1


@played
async def test_finishing_writes_what_was_sent_before() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    conversation.send(CreditConfirmed(1))
    conversation.send(CreditConfirmed(2))
    conversation.finish()
    assert await talk == "closed by us"
    assert link.said_by_driver() == [CreditConfirmed(1), CreditConfirmed(2)]
    assert link.closed


@played
async def test_finishing_waits_for_a_slow_reader_but_not_for_long() -> None:
    link = PlayedLink(room=1)
    conversation, _, talk = _talking(link)
    conversation.send(CreditConfirmed(1))
    await settle()
    conversation.send(CreditConfirmed(2))
    conversation.finish()
    await asyncio.sleep(0.5)
    assert not talk.done()
    assert await link.hear() == (CreditConfirmed(1),)
    assert await talk == "closed by us"
    assert link.said_by_driver() == [CreditConfirmed(1), CreditConfirmed(2)]


@pytest.mark.parametrize("writing_already", [False, True])
@played
async def test_finishing_gives_up_on_a_peer_that_does_not_read(writing_already: bool) -> None:
    link = PlayedLink(room=1)
    conversation, _, talk = _talking(link)
    conversation.send(CreditConfirmed(1))
    await settle()
    began_s = now_s()
    conversation.send(CreditConfirmed(2))
    if writing_already:
        await settle()
    conversation.finish()
    conversation.finish()  # again is fine
    assert await talk == "closed by us with words unsaid: the peer does not read"
    assert now_s() - began_s == pytest.approx(1.0, abs=0.001)
    assert link.closed


@played
async def test_a_peer_that_hangs_up_while_we_write_ends_the_session() -> None:
    link = PlayedLink(room=1)
    conversation, _, talk = _talking(link)
    conversation.send(CreditConfirmed(1))
    await settle()
    conversation.send(CreditConfirmed(2))
    await settle()
    link.hang_up()
    assert await talk in ("hung up", "nobody is there")
    assert link.closed


@played
async def test_a_canceled_talk_closes_the_connection_and_leaves_no_writer() -> None:
    link = PlayedLink()
    conversation, _, talk = _talking(link)
    conversation.send(BEAT)
    await settle()
    talk.cancel()
    await asyncio.wait((talk,))
    assert talk.cancelled()
    assert link.closed
    assert len(asyncio.all_tasks()) == 1


@played
async def test_an_error_in_what_takes_the_messages_is_not_swallowed() -> None:
    link = PlayedLink()
    conversation = Conversation(link)

    def take(messages: Iterable[Message]) -> None:
        if list(messages):
            raise LookupError("a bug of ours")

    link.say(BEAT)
    with pytest.raises(LookupError, match="a bug of ours"):
        await conversation.talk(take)
    assert link.closed
