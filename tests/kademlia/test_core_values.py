"""One core: values, providers, limits and upkeep."""

from functools import partial

import pytest

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.ledger import USER_SHARE
from smartpubsub.kademlia.messages import Kind, Message, Record
from smartpubsub.kademlia.queries import Found, Got, Providers, Put
from smartpubsub.kademlia.settings import HOUR, Settings
from smartpubsub.seam import (
    Answer,
    Ask,
    Asked,
    Event,
    Received,
    Send,
    SetTimer,
    Started,
    Store,
    TimerFired,
)
from tests.kademlia.alone import (
    CID,
    PING,
    SETTINGS,
    answer,
    answers,
    asked,
    core_that_knows,
    put,
    silence,
)
from tests.kademlia.wired import contact, content_id, items


def lookup_of_a_put(core: Kademlia) -> list[Ask]:
    _, effects = core.put(CID, b"value", 0)
    return items(effects, Ask)


def test_a_put_waits_for_its_answers_until_the_timeout() -> None:
    core = core_that_knows(1, settings=Settings(k=3))
    (lookup,) = lookup_of_a_put(core)

    effects = answer(core, lookup, now=5)
    (ask,) = items(effects, Ask)
    assert ask.message == put(CID, b"value")
    assert SetTimer(("kad", ask.number), 5 + SETTINGS.slow_us) in effects
    again, ping = items(silence(core, ask, 5 + SETTINGS.slow_us), Ask)
    assert (again, ping.message) == (ask, Message(Kind.PING))
    (done,) = items(silence(core, ask, 5 + SETTINGS.timeout_us), Put)
    assert done.copies == 1


def test_an_answer_to_the_lookup_that_comes_while_values_are_put_changes_nothing() -> None:
    core = core_that_knows(1, 2, settings=Settings(k=2, alpha=3))
    far, near = sorted(lookup_of_a_put(core), key=lambda ask: -(contact_of(ask).key ^ key(CID)))
    closer = sorted((contact(n) for n in range(3, 40)), key=lambda c: c.key ^ key(CID))[:2]
    effects = answer(core, near, Message(Kind.FIND_NODE, CID, closer=tuple(closer)))
    first, second = items(effects, Ask)
    answer(core, first)
    puts = [ask for ask in items(answer(core, second), Ask) if ask.message == put(CID, b"value")]
    assert len(puts) == 2

    assert items(answer(core, far), Ask) == []

    assert items(answer(core, puts[0], put(CID, b"value")), Put) == []
    (done,) = items(answer(core, puts[1], put(CID, b"value")), Put)
    assert done.copies == 2


def contact_of(ask: Ask) -> Contact:
    return Contact.of(ask.peer)


def key(name: bytes) -> int:
    return Contact.of(name).key


def test_a_value_that_proves_itself_is_stored_before_it_is_confirmed() -> None:
    core = core_that_knows()

    effects = asked(core, 1, put(CID, b"value"))

    assert effects[:2] == [
        Store(b"kad/value/" + CID, b"value"),
        Answer(contact(1).peer, put(CID, b"value"), 77),
    ]
    assert core.refused == 0


@pytest.mark.parametrize(
    "message",
    [
        put(CID, b"another"),
        put(b"/even/a", b"odd"),
        put(b"/unknown/a", b""),
        Message(Kind.PUT_VALUE, CID),
        Message(Kind.PUT_VALUE, b"/even/b", Record(b"/even/a", b"")),
    ],
)
def test_a_value_that_does_not_prove_itself_is_refused(message: Message) -> None:
    core = core_that_knows()

    effects = asked(core, 1, message)

    assert answers(effects) == [Message(Kind.PUT_VALUE, message.key)]
    assert items(effects, Store) == []
    assert core.refused == 1
    assert len(core.values) == 0


def test_nobody_is_bothered_with_a_value_that_nobody_would_take() -> None:
    core = core_that_knows(1)

    for name, value in [(CID, b"another"), (content_id(b"v" * 65_537), b"v" * 65_537)]:
        number, effects = core.put(name, value, 0)
        assert items(effects, Put) == [Put(number, name, copies=0)]
        assert items(effects, Ask) == []


@pytest.mark.parametrize("command", ["find_closest", "get", "provide", "find_providers"])
def test_a_name_that_nobody_would_take_is_an_error(command: str) -> None:
    core = core_that_knows(1)

    with pytest.raises(SmartPubSubError, match="a name of 1033 bytes; at most 1032 are allowed"):
        getattr(core, command)(b"n" * 1033, 0)


def test_a_false_value_is_refused_and_the_lookup_goes_on() -> None:
    core = core_that_knows(1, 2)
    _, effects = core.get(CID, 0)
    one, other = items(effects, Ask)

    effects = answer(core, one, Message(Kind.GET_VALUE, CID, Record(CID, b"false")))
    assert items(effects, Got) == []
    assert core.refused == 1
    (got,) = items(answer(core, other, Message(Kind.GET_VALUE, CID, Record(CID, b"value"))), Got)

    assert got.value == b"value"


def test_a_value_under_another_name_is_not_taken() -> None:
    core = core_that_knows(1)
    _, effects = core.get(b"/even/a", 0)
    (ask,) = items(effects, Ask)

    other = Record(b"/even/b", b"22")
    (got,) = items(answer(core, ask, Message(Kind.GET_VALUE, b"/even/a", other)), Got)

    assert got.value is None


def test_a_value_that_is_held_is_got_without_asking_anybody() -> None:
    core = core_that_knows(1)
    asked(core, 1, put(CID, b"value"))

    number, effects = core.get(CID, 1)

    assert items(effects, Got) == [Got(number, CID, b"value")]
    assert items(effects, Ask) == []


# --- providers ---


def test_only_a_provider_itself_may_say_that_it_provides() -> None:
    core = core_that_knows()
    say = partial(Message, Kind.ADD_PROVIDER, b"name")

    core.handle(Received(contact(1).peer, say(providers=(contact(2),))), 0)
    core.handle(Received(contact(1).peer, say()), 0)
    assert core.refused == 2
    core.handle(Received(contact(1).peer, say(providers=(contact(2), contact(1)))), 0)

    (told,) = answers(asked(core, 3, Message(Kind.GET_PROVIDERS, b"name")))
    assert isinstance(told, Message)
    assert told.providers == (contact(1),)


def test_the_names_that_one_peer_provides_take_a_limited_room() -> None:
    core = core_that_knows(4, settings=Settings())
    large = Contact.of(contact(1).peer, tuple(bytes([n]) * 512 for n in range(16)))

    def add(name: str, provider: Contact) -> None:
        message = Message(Kind.ADD_PROVIDER, name.encode(), providers=(provider,))
        core.handle(Received(provider.peer, message), 0)

    def is_provided(name: str) -> bool:
        return bool(core.values.providers(name.encode(), 0))

    for number in range(core.settings.provider_count_max):
        add(f"large {number}", large)
        add(f"small {number}", contact(2))
    add("of another", contact(3))
    assert is_provided("of another")
    account = next(account for account in core.ledger if account.name == "providers")
    account.check()
    assert account.size_of(large.peer) <= core.settings.providers_bytes_max // USER_SHARE
    places = range(core.settings.provider_count_max)
    small = sum(is_provided(f"small {number}") for number in places)
    assert small == core.settings.provider_count_max // USER_SHARE

    core.values.expire(core.settings.expire_us)
    assert account.size == 0
    add("large again", large)
    assert is_provided("large again")


def test_a_provider_tells_the_closest_and_knows_it_itself() -> None:
    core = core_that_knows(1)
    _, effects = core.provide(b"name", 0)
    (ask,) = items(effects, Ask)

    assert items(answer(core, ask), Send) == [
        Send(contact(1).peer, Message(Kind.ADD_PROVIDER, b"name", providers=(core.own,)))
    ]
    (told,) = answers(asked(core, 1, Message(Kind.GET_PROVIDERS, b"name")))
    assert isinstance(told, Message)
    assert told.providers == (core.own,)


def test_providers_that_the_node_was_told_of_itself_are_found_too() -> None:
    core = core_that_knows(1)
    message = Message(Kind.ADD_PROVIDER, b"name", providers=(contact(1),))
    core.handle(Received(contact(1).peer, message), 0)

    _, effects = core.find_providers(b"name", 0)
    (ask,) = items(effects, Ask)
    told = Message(Kind.GET_PROVIDERS, b"name", providers=(contact(2), contact(1)))
    (found,) = items(answer(core, ask, told), Providers)

    assert found.providers == (contact(1), contact(2))


# --- what is beyond limits, or not understood ---


TOO_LARGE = [
    Message(Kind.FIND_NODE, b"n" * 1033),
    Message(Kind.PUT_VALUE, CID, Record(CID, b"v" * 65_537)),
    Message(Kind.PUT_VALUE, CID, Record(b"n" * 1033, b"")),
    Message(Kind.FIND_NODE, closer=(contact(1),) * 101),
    Message(Kind.ADD_PROVIDER, providers=(contact(1),) * 101),
]


@pytest.mark.parametrize("message", TOO_LARGE)
def test_messages_beyond_the_limits_are_refused_and_counted(message: Message) -> None:
    core = core_that_knows()

    assert asked(core, 1, message) == []
    assert core.refused == 1


@pytest.mark.parametrize("message", TOO_LARGE)
def test_an_answer_beyond_the_limits_counts_as_one_that_says_nothing(message: Message) -> None:
    core = core_that_knows(1)
    _, effects = core.find_closest(b"name", 0)
    (ask,) = items(effects, Ask)

    (found,) = items(answer(core, ask, message), Found)

    assert set(found.closest) == {core.own, contact(1)}
    assert core.refused == 1


@pytest.mark.parametrize(
    "event",
    [
        Asked(b"peer", "no message of Kademlia", 1),
        Received(b"peer", "no message of Kademlia"),
        Received(b"peer", PING),
        TimerFired("somebody else's"),
        TimerFired(("kad", 99)),
    ],
)
def test_what_does_not_concern_the_core_is_ignored(event: Event) -> None:
    assert core_that_knows().handle(event, 0) == []


# --- timers ---


def test_refresh_and_upkeep_are_set_at_the_start_and_again_each_time() -> None:
    core = core_that_knows()
    timers = {timer.timer: timer.at for timer in items(core.handle(Started(), 0), SetTimer)}
    assert 0.8 * SETTINGS.refresh_us <= timers["kad", "refresh"] <= 1.2 * SETTINGS.refresh_us
    assert 0.8 * HOUR <= timers["kad", "upkeep"] <= 1.2 * HOUR

    for timer in (("kad", "refresh"), ("kad", "upkeep")):
        assert [item.timer for item in items(core.handle(TimerFired(timer), 0), SetTimer)] == [
            timer
        ]


def test_values_are_republished_when_they_are_due() -> None:
    core = core_that_knows(1)
    asked(core, 1, put(CID, b"value"))
    assert items(core.handle(TimerFired(("kad", "upkeep")), HOUR // 2), Ask) == []

    (ask,) = items(core.handle(TimerFired(("kad", "upkeep")), 2 * HOUR), Ask)
    (again,) = items(answer(core, ask, now=2 * HOUR), Ask)

    assert again.message == put(CID, b"value")


def test_values_that_one_peer_has_put_at_once_are_republished_a_few_at_a_time() -> None:
    core = core_that_knows(1, settings=Settings(k=2))
    names = {}
    for number in range(100):
        value = b"value %d" % number
        names[content_id(value)] = number
        asked(core, 1, put(content_id(value), value))

    now, again_at, republished = 2 * HOUR, 0, dict[bytes, int]()
    for _ in range(7):
        effects = core.handle(TimerFired(("kad", "upkeep")), now)
        asks = items(effects, Ask)
        assert len(asks) <= 16
        republished |= {ask.message.key: now for ask in asks if isinstance(ask.message, Message)}
        timers = {timer.timer: timer.at for timer in items(effects, SetTimer)}
        again_at = timers["kad", "upkeep"] - now
        if len(republished) < len(names):
            assert again_at == core.settings.republish_pause_us
        now += again_at
    assert republished.keys() == names.keys()
    assert again_at >= 0.8 * HOUR


def test_every_value_of_a_full_store_is_republished_within_the_interval() -> None:
    settings = Settings()
    times = settings.value_count_max / settings.republish_count_max
    assert times * settings.republish_pause_us < settings.republish_us


def test_expired_values_are_forgotten_and_removed_from_storage() -> None:
    core = core_that_knows()
    asked(core, 1, put(CID, b"value"))

    effects = core.handle(TimerFired(("kad", "upkeep")), SETTINGS.expire_us)

    assert items(effects, Store) == [Store(b"kad/value/" + CID, None)]
    assert len(core.values) == 0
