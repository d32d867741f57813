"""Components by themselves, with a fake peer at the other end of their requests."""

from functools import partial

from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.ledger import Ledger
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.delivery import TRANSMISSIONS_MAX, GroupDelivery
from smartpubsub.protocols.fastdelivery.group import MemberPaths
from smartpubsub.protocols.fastdelivery.helper import GroupHelper
from smartpubsub.protocols.fastdelivery.messages import (
    Agreed,
    Answer,
    Charge,
    Delegate,
    Expect,
    GroupId,
    NotHelping,
    Packet,
    Question,
    Recruit,
    Relay,
    RelayConfirmed,
    Release,
    RequestDone,
    Turn,
)
from smartpubsub.protocols.fastdelivery.settings import FastSettings
from smartpubsub.protocols.fastdelivery.signatures import GroupSignatures
from smartpubsub.protocols.fastdelivery.subscriber import SUBSCRIPTION_TRANSITIONS, Progress
from smartpubsub.protocols.fastdelivery.timeouts import AnswerTimeouts
from smartpubsub.protocols.publication import EventId, Publication
from smartpubsub.protocols.pubsub import Delivery, Subscription
from smartpubsub.protocols.runtime.outbox import Outbox
from smartpubsub.protocols.runtime.requests import Requests
from smartpubsub.seam import Deliver
from smartpubsub.sim.kernel.signing import StandInSigning

SURF = Predicate.parse("surf")
OWN, OWNER = Contact.of(b"own"), Contact.of(b"owner")


class FakePeers:
    """Ports whose messages are recorded."""

    def __init__(self, settings: FastSettings) -> None:
        self.sent: list[tuple[bytes, int, Question | Answer]] = []
        outbox: Outbox[Packet] = Outbox("fast", list)
        self.requests: Requests[Question, Answer] = Requests(
            outbox,
            lambda peer, number, message: self.sent.append((peer, number, message)),
            AnswerTimeouts(settings),
            tries_max=settings.tries_max,
        )
        signatures = GroupSignatures(StandInSigning(OWN.peer), OWN, settings)
        self.outbox = outbox
        self.ports = outbox, self.requests, signatures, settings, OWN, Ledger()

    def delivered(self) -> list[int]:
        effects = self.outbox.take()
        items = [effect.item for effect in effects if isinstance(effect, Deliver)]
        return [item.event.id.number for item in items if isinstance(item, Delivery)]

    def answers(self) -> list[Question | Answer]:
        answers = [message for _, _, message in self.sent]
        self.sent.clear()
        return answers


def event(number: int) -> Publication:
    return Publication.of(EventId(OWNER.peer, 1, number), SURF, b"", b"")


GROUP = GroupId(OWNER.peer, SURF)


def delivery(settings: FastSettings) -> tuple[FakePeers, GroupDelivery]:
    peers = FakePeers(settings)
    component = GroupDelivery(*peers.ports)
    component.add(Subscription(1, SURF))
    return peers, component


def test_a_held_event_is_delivered_after_its_predecessor() -> None:
    peers, component = delivery(FastSettings())
    done: list[int] = []
    for number, prior in ((3, 2), (2, 1)):
        component.take(
            event(number), GROUP, 1, prior, (OWNER.peer, number), partial(done.append, number)
        )
        component.check()
    assert (component.held_count, peers.delivered(), done) == (2, [], [])
    component.take(event(1), GROUP, 1, 0, (OWNER.peer, 1), lambda: done.append(1))
    component.check()
    assert (component.held_count, peers.delivered(), done) == (0, [1, 2, 3], [1, 2, 3])


def test_a_held_event_is_delivered_when_the_owner_does_not_bring_its_predecessor() -> None:
    settings = FastSettings()
    peers, component = delivery(settings)
    component.take(event(2), GROUP, 1, 1, (OWNER.peer, 9), lambda: None)
    assert not component.take(event(2), GROUP, 1, 1, (OWNER.peer, 9), lambda: None)
    peers.outbox.now = settings.hold_us
    component.on_hold_timer()
    ((peer, number, question),) = peers.sent
    assert (peer, question) == (OWNER.peer, Expect(1, 1))
    peers.requests.on_answer(OWNER.peer, number, RequestDone())
    assert peers.delivered() == [2]
    component.check()


def test_the_held_events_of_one_publisher_leave_room_for_those_of_others() -> None:
    settings = FastSettings(held_count_max=10)
    peers, component = delivery(settings)
    for number in range(100, 140, 2):
        component.take(event(number), GROUP, 1, number - 1, (OWNER.peer, number), lambda: None)
        component.check()
    assert (component.held_count, len(peers.delivered())) == (10, 10)

    def of_other(number: int) -> Publication:
        return event(number)._replace(id=EventId(b"other", 1, number))

    for number, prior in ((3, 2), (2, 1), (1, 0)):
        group = GroupId(b"other", SURF)
        component.take(of_other(number), group, 1, prior, (b"other", number), lambda: None)
        component.check()
    assert peers.delivered() == [100, 102, 1, 2, 3]
    assert component.held_count == 8


def test_a_held_event_has_few_transmissions_and_the_others_are_confirmed_when_repeated() -> None:
    peers, component = delivery(FastSettings())
    confirmed: list[int] = []

    def take(transmission: int) -> bool:
        then = partial(confirmed.append, transmission)
        return component.take(event(2), GROUP, 1, 1, (OWNER.peer, transmission), then)

    assert [take(n) for n in range(100)] == [n < TRANSMISSIONS_MAX for n in range(100)]
    component.take(event(1), GROUP, 1, 0, (OWNER.peer, 1000), lambda: None)
    assert confirmed == list(range(TRANSMISSIONS_MAX))
    assert take(99)
    assert confirmed[-1] == 99
    assert peers.delivered() == [1, 2]


def test_an_event_names_a_predecessor_only_if_paths_differ() -> None:
    paths, ids = MemberPaths(), [EventId(OWNER.peer, 1, number) for number in range(1, 6)]
    assert paths.append(ids[0], b"member", b"member") == 0
    assert paths.append(ids[1], b"member", b"member") == 0
    assert paths.append(ids[2], b"member", b"helper") == 2
    assert paths.append(ids[3], b"member", b"helper") == 3
    for id in ids[:4]:
        paths.remove(id, b"member")
        paths.check()
    assert paths.append(ids[4], b"member", b"member") == 0


def test_a_helper_grants_no_more_than_its_capacity_and_ignores_old_delegations() -> None:
    peers = FakePeers(FastSettings(capacity=2))
    helper = GroupHelper(*peers.ports, GroupDelivery(*peers.ports), lambda _: True)
    helper.on_recruit(OWNER, 1, Recruit(SURF, 1, 5))
    helper.on_recruit(Contact.of(b"other"), 1, Recruit(SURF, 1, 1))
    assert peers.answers() == [Agreed(2), Agreed(0)]
    one, two, three = (Charge(Contact.of(peer), (SURF,)) for peer in (b"1", b"2", b"3"))
    helper.on_delegate(OWNER, 2, Delegate(SURF, 1, 2, (one, two), ()))
    helper.on_delegate(OWNER, 3, Delegate(SURF, 1, 3, (three,), ()))
    helper.on_delegate(OWNER, 4, Delegate(SURF, 1, 1, (), (b"1",)))
    helper.check()
    assert peers.answers() == [RequestDone(), NotHelping(), RequestDone()]
    assert helper.delegated_count == 2
    helper.on_release(OWNER, 5, Release(SURF, 1))
    helper.on_delegate(OWNER, 6, Delegate(SURF, 1, 4, (one,), ()))
    assert peers.answers() == [RequestDone(), NotHelping()]
    assert helper.delegated_count == helper.granted == 0


def test_a_subscription_can_end_in_every_state() -> None:
    for progress in Progress:
        if progress is not Progress.ENDED:
            assert SUBSCRIPTION_TRANSITIONS[progress, "unsubscribe"] is Progress.ENDED


def test_a_helper_names_itself_if_it_does_not_take_the_event_it_relays() -> None:
    peers = FakePeers(FastSettings(capacity=10))
    helper = GroupHelper(*peers.ports, GroupDelivery(*peers.ports), lambda _: True)
    helper.on_recruit(OWNER, 1, Recruit(SURF, 1, 5))
    relayed = event(2)._replace(signature=StandInSigning(OWNER.peer).sign(event(2).id, SURF, b""))
    turns = (Turn(OWN.peer, 1),)  # The first event does not come.
    for number in range(2, 2 + TRANSMISSIONS_MAX + 1):
        helper.on_relay(
            OWNER, number, Relay(SURF, 1, relayed, (OWN.peer,), is_resend=False, turns=turns)
        )
        helper.check()
    confirmed = [answer for _, _, answer in peers.sent if isinstance(answer, RelayConfirmed)]
    assert confirmed == [RelayConfirmed((OWN.peer,))]
