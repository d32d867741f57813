"""Kademlia as a core: a node's place in the overlay, and lookups in it.

Its owner hands it the events that concern it and performs its effects. It reports to its owner by
`Deliver`, with one of the results of `smartpubsub.kademlia.queries`.

Names are bytes (a peer id, an attribute's name, a content id). Their position in the overlay, from
which distance is computed, is their SHA-256. The wire carries names, as libp2p specifies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from smartpubsub.errors import SmartPubSubError
from smartpubsub.kademlia.asks import Asks, OpenAsk
from smartpubsub.kademlia.blame import Blame
from smartpubsub.kademlia.id_work import has_work
from smartpubsub.kademlia.keys import Contact, key_of
from smartpubsub.kademlia.ledger import Ledger
from smartpubsub.kademlia.lookup import Lookup
from smartpubsub.kademlia.messages import Kind, Message, Record, is_acceptable
from smartpubsub.kademlia.queries import Goal, Got, Joined, Lost, Provided, Providers, Put, Query
from smartpubsub.kademlia.refresh import names_in_far_buckets
from smartpubsub.kademlia.serving import answer_to, answer_to_put
from smartpubsub.kademlia.settings import Settings
from smartpubsub.kademlia.table import RoutingTable
from smartpubsub.kademlia.values import Validator, ValueStore
from smartpubsub.seam import (
    Answer,
    Answered,
    Asked,
    Deliver,
    Departed,
    Disconnected,
    Effect,
    Event,
    Load,
    Loaded,
    Received,
    Send,
    SetTimer,
    Started,
    Store,
    TimerFired,
)

_STORED = b"kad/value/"
AVOIDED_COUNT_MAX = 1_000


class Kademlia:
    """One node of the overlay."""

    def __init__(
        self,
        own: Contact,
        settings: Settings,
        rng: Random,
        validators: Mapping[bytes, Validator] | None = None,
    ) -> None:
        self.own = own
        self.settings = settings
        self.table = RoutingTable(own.key, settings.k, settings.peers_per_prefix_max)
        self.ledger = Ledger()
        """The resources that this node spends on others, in all protocols."""
        self.blame = Blame(self.table.prefix_of)
        """What this node suspects peers of, in all protocols."""
        self.values = ValueStore(settings, validators or {}, self.ledger)
        self.refused = 0
        self._rng = rng
        self._effects: list[Effect] = []
        self._asks = Asks(settings, self._effects)
        self._queries: dict[int, Query] = {}
        self._avoided: dict[bytes, int] = {}
        """Peers that have left or were suspected, and since when."""
        self.heard_us: dict[bytes, int] = {}
        """When the owner last received a message from each peer, for any core."""
        self._unverified: dict[bytes, bool] = {}
        """Peers that other cores want verified, and whether they suspect them."""
        self._last_query = 0

    # --- inputs ---

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Return the effects of an event."""
        if isinstance(event, Answered):
            self._on_answer(event, now)
        elif isinstance(event, Asked):
            self._on_ask(event, now)
        else:
            self._on_rarer_event(event, now)
        return self._taken()

    def _on_rarer_event(self, event: Event, now: int) -> None:
        match event:
            case TimerFired(("kad", name)):
                self._on_timer(name, now)
            case Departed(peer):
                self._on_departed(peer, now)
                self._asks.forget_late(peer)
            case Disconnected(peer):
                self._on_unreachable(peer, now)
            case Received(peer, Message(kind=Kind.ADD_PROVIDER) as message):
                if self._accepts(message):
                    self._on_add_provider(peer, message, now)
            case Started():
                self._emit(Load(_STORED))
                self._set_timer("refresh", self.settings.refresh_us, now)
                self._set_timer("upkeep", self.settings.republish_us, now)
            case Loaded(_, stored):
                for key, value in stored:
                    self.values.put(key[len(_STORED) :], value, now, self._republish_at(now))

    def _on_timer(self, name: object, now: int) -> None:
        if name == "refresh":
            self._refresh(now)
        elif name == "upkeep":
            self._upkeep(now)
        elif name == "suspects":
            unverified, self._unverified = self._unverified, {}
            for peer, is_suspected in unverified.items():
                self._verify(peer, now, is_suspected=is_suspected)
        elif isinstance(name, int):
            self._on_silence(name, now)

    # --- calls of the owner ---

    def join(self, bootstrap: Sequence[Contact], now: int) -> list[Effect]:
        """Join the overlay through the given peers; delivers `Joined`."""
        seeds = [contact for contact in bootstrap if contact.peer != self.own.peer]
        self._start(Goal.JOIN, self.own.peer, now, seeds=seeds)
        return self._taken()

    def meet(self, contact: Contact, now: int) -> list[Effect]:
        """Ping a peer, and if it answers join through it once more; delivers nothing."""
        self._asks.ping(contact, now, is_meeting=True)
        return self._taken()

    def find_closest(
        self,
        name: bytes,
        now: int,
        count: int = 0,
        *,
        paths: int = 0,
        waits_for_slow: bool = True,
    ) -> tuple[int, list[Effect]]:
        """Find the peers closest to a name, `count` or k of them; delivers `Found`.

        `Found` has this node too, in its place among them, and at most k nodes. The lookup follows
        `paths` disjoint paths, or as many as the settings say. A peer that it does not wait for
        does not count as failed.
        """
        number = self._start(
            Goal.CLOSEST, name, now, count=count, paths=paths, waits_for_slow=waits_for_slow
        )
        return number, self._taken()

    def put(self, name: bytes, value: bytes, now: int) -> tuple[int, list[Effect]]:
        """Store a value at the peers closest to its name; delivers `Put`.

        An invalid value is not sent at all.
        """
        if not self.values.is_valid(name, value):
            number = self._take_number()
            self._emit(Deliver(Put(number, name, copies=0)))
            return number, self._taken()
        return self._start(Goal.PUT, name, now, value=value), self._taken()

    def get(self, name: bytes, now: int) -> tuple[int, list[Effect]]:
        """Find a value; delivers `Got`."""
        held = self.values.get(name, now)
        if held is not None:
            number = self._take_number()
            self._emit(Deliver(Got(number, name, held)))
            return number, self._taken()
        return self._start(Goal.GET, name, now), self._taken()

    def provide(self, name: bytes, now: int) -> tuple[int, list[Effect]]:
        """Tell the peers closest to a name that this node provides it; delivers `Provided`."""
        number = self._start(Goal.PROVIDE, name, now)
        self.values.add_provider(name, self.own, now)
        return number, self._taken()

    def find_providers(self, name: bytes, now: int) -> tuple[int, list[Effect]]:
        """Find the providers of a name; delivers `Providers`."""
        return self._start(Goal.PROVIDERS, name, now), self._taken()

    def closest_local(self, name: bytes, count: int) -> list[Contact]:
        """The peers closest to a name in the routing table, without this node."""
        return self.table.closest(key_of(name), count)

    def is_closest(self, name: bytes) -> bool | None:
        """Whether this node is the closest to a name; None if only a lookup can decide."""
        return self.table.is_closest(key_of(name))

    @property
    def is_slow(self) -> bool:
        """Whether answers take so long that links are full, and lookups would fill them further."""
        return self._asks.are_links_full

    def knows(self, contact: Contact) -> bool:
        """Whether a peer is in the routing table, even if it failed to answer last time."""
        return contact in self.table

    def admits(self, contact: Contact) -> bool:
        """Whether a peer may be in the table: its id has the work that the network asks for."""
        return has_work(contact.peer, self.settings.id_work_bits)

    def _admitted(self, contacts: tuple[Contact, ...]) -> tuple[Contact, ...]:
        is_open = not self.settings.id_work_bits
        return contacts if is_open else tuple(filter(self.admits, contacts))

    def consider(self, contact: Contact, now: int) -> list[Effect]:
        """Ping a peer that has sent something, and add it to the table if there is room."""
        self._consider(contact, now)
        return self._taken()

    @property
    def round_trip_us(self) -> int:
        """The smoothed round-trip time to other nodes; 0 before the first answer."""
        return self._asks.round_trip_us

    def verify(self, peer: bytes, now: int) -> list[Effect]:
        """Ping a peer that a core above waits for; delivers `Lost` if it does not answer.

        A timer starts the ping, so that the owner gets the result as the effect of an input.
        """
        self._unverified.setdefault(peer, False)
        return [SetTimer(("kad", "suspects"), now)]

    def suspect(self, peer: bytes, now: int) -> list[Effect]:
        """Verify a peer that has not answered a core above; lookups go on without it at once."""
        self._unverified[peer] = True
        return [SetTimer(("kad", "suspects"), now)]

    # --- queries ---

    def _start(
        self,
        goal: Goal,
        name: bytes,
        now: int,
        *,
        value: bytes = b"",
        seeds: Sequence[Contact] = (),
        count: int = 0,
        paths: int = 0,
        waits_for_slow: bool = True,
    ) -> int:
        # Peers drop longer names without an answer, and would seem to have failed.
        if len(name) > self.settings.name_bytes_max:
            raise SmartPubSubError(
                f"a name of {len(name)} bytes; at most {self.settings.name_bytes_max} are allowed"
            )
        number = self._take_number()
        target = key_of(name)
        known = [*seeds, *self.table.closest(target, self.settings.k)]
        lookup = Lookup(
            target,
            known,
            k=count or self.settings.k,
            alpha=self.settings.alpha,
            paths=paths or self.settings.paths,
            own=self.own.peer,
            waits_for_slow=waits_for_slow,
            per_prefix_max=self.settings.peers_per_prefix_max,
        )
        self._queries[number] = query = Query(number, goal, name, lookup, value)
        if goal is Goal.PROVIDERS:
            query.hear_of_providers(self.values.providers(name, now))
        self._advance(query, now)
        return number

    def _advance(self, query: Query, now: int) -> None:
        if query.lookup.finished:
            return  # A late answer, while the value is being put.
        is_left_out = True
        while is_left_out:
            is_left_out = False
            for contact in query.lookup.next():
                gone_us = self._gone_us(contact.peer, now)
                # A node that joins has no better peers to ask.
                if gone_us < self.settings.timeout_us and query.goal is not Goal.JOIN:
                    is_left_out = True
                    query.lookup.on_failure(contact.peer)
                else:
                    is_doubtful = gone_us < self.settings.doubt_us
                    self._asks.ask(
                        *(contact, query.question, now),
                        query=query.number,
                        is_doubtful=is_doubtful,
                        is_brief=not query.lookup.waits_for_slow,
                    )
        if query.lookup.finished:
            self._conclude(query, now)

    def _on_answer(self, event: Answered, now: int) -> None:
        peer, message, number, prefix = event
        ask = self._asks.on_answer(peer, number, now)
        if ask is None:
            return
        self._avoided.pop(peer, None)
        if self.admits(ask.contact):
            self.table.heard_from(ask.contact, now, prefix)
        if ask.is_meeting:
            self._start(Goal.REFRESH, self.own.peer, now, seeds=[ask.contact])
            self._refresh_far_buckets(now)
        if not isinstance(message, Message) or not self._accepts(message):
            message = Message(Kind.PING)
        query = self._query_of(ask)
        if query is None or ask.has_failed:
            return  # The answer is too late for the query; it only shows that the peer is up.
        if ask.is_put:
            self._count_put(query, kept=message.record is not None)
        elif query.goal is not Goal.GET or not self._accept_value(query, message):
            query.hear_of_providers(message.providers)
            query.lookup.on_answer(peer, self._admitted(message.closer), prefix)
            self._advance(query, now)

    def _on_silence(self, number: int, now: int) -> None:
        ask = self._asks.on_silence(number, now)
        if ask is None:
            return
        query = self._query_of(ask)
        if ask.is_verification:
            if ask.has_failed:
                self._on_verification_failed(ask, now)
        elif ask.has_failed:
            self._on_failure(ask, query, now)
        elif query is not None:
            if not ask.is_brief and not self._asks.are_slow:
                self._asks.verify(ask.contact, now)
            query.lookup.on_slow(ask.contact.peer)
            self._advance(query, now)

    def _on_failure(self, ask: OpenAsk, query: Query | None, now: int) -> None:
        if not ask.is_brief:
            replacement = self.table.failed(ask.contact, self.settings.failures_max)
            if replacement is not None:
                self._asks.ping(replacement, now)
        self._go_on_without(ask, query, now)

    def _go_on_without(self, ask: OpenAsk, query: Query | None, now: int) -> None:
        """Continue a query without a peer that has not answered."""
        if query is not None and ask.is_put:
            self._count_put(query, kept=False)
        elif query is not None:
            query.lookup.on_failure(ask.contact.peer)
            self._advance(query, now)

    def _on_departed(self, peer: bytes, now: int) -> None:
        """Drop a peer that has left; queries go on without its answers."""
        self._avoid(peer, now)
        replacement = self.table.failed(Contact.of(peer), failures_max=1)
        if replacement is not None:
            self._asks.ping(replacement, now)
        for ask in self._asks.close_all(peer):
            self._on_failure(ask, self._query_of(ask), now)

    def _verify(self, peer: bytes, now: int, *, is_suspected: bool) -> None:
        """Ping a peer; queries go on without a suspected one."""
        contact = Contact.of(peer)
        if is_suspected:
            self._avoid(peer, now)
            self.table.doubt(contact)
            # Cores may suspect a peer again and again; that must not prolong its verification.
            for ask in self._asks.close_all(peer, ends_verification=False):
                self._go_on_without(ask, self._query_of(ask), now)
        self._asks.verify(self.table.known(contact) or contact, now)

    def _on_verification_failed(self, ask: OpenAsk, now: int) -> None:
        """Drop a peer that has answered no ping, unless it has sent any other message.

        If links are full, answers to pings wait behind other messages.
        """
        contact = ask.contact
        if self.heard_us.get(contact.peer, -1) >= ask.asked_at:
            if contact in self.table:
                self.table.heard_from(contact, now)
            return
        self._on_departed(contact.peer, now)
        self._emit(Deliver(Lost(contact.peer)))

    def _gone_us(self, peer: bytes, now: int) -> int:
        """How long a peer has been gone or suspected; `doubt_us` if it is neither."""
        since = self._avoided.get(peer)
        if since is None or self.heard_us.get(peer, -1) > since:
            return self.settings.doubt_us
        return now - since

    def _avoid(self, peer: bytes, now: int) -> None:
        """Keep lookups from asking a peer for a while, and later from waiting for it long.

        Other nodes may name the peer for minutes. Any message from it ends this.
        """
        self._avoided.pop(peer, None)
        self._avoided[peer] = now
        if len(self._avoided) > AVOIDED_COUNT_MAX:
            del self._avoided[next(iter(self._avoided))]

    def _on_unreachable(self, peer: bytes, now: int) -> None:
        # A joining node does not wait for unreachable peers. Other queries retry: the connection
        # may come back.
        for query in [query for query in self._queries.values() if query.goal is Goal.JOIN]:
            query.lookup.on_failure(peer)
            self._advance(query, now)

    def _query_of(self, ask: OpenAsk) -> Query | None:
        """The query of a request, if it is still open."""
        return None if ask.query is None else self._queries.get(ask.query)

    # --- results ---

    def _conclude(self, query: Query, now: int) -> None:
        contacts = [candidate.contact for candidate in query.lookup.closest()]
        match query.goal:
            case Goal.PUT:
                self._put_to_closest(query, contacts, now)
                return
            case Goal.CLOSEST:
                self._emit(Deliver(query.found(self.own, self.settings.k)))
            case Goal.GET:
                self._emit(Deliver(Got(query.number, query.name, None)))
            case Goal.PROVIDE:
                message = Message(Kind.ADD_PROVIDER, query.name, providers=(self.own,))
                for contact in contacts:
                    self._emit(Send(contact.peer, message))
                self._emit(Deliver(Provided(query.number, query.name, len(contacts))))
            case Goal.PROVIDERS:
                found = tuple(query.providers.values())
                self._emit(Deliver(Providers(query.number, query.name, found)))
            case Goal.JOIN:
                self._refresh_far_buckets(now)
                self._emit(Deliver(Joined(len(self.table))))
        del self._queries[query.number]

    def _put_to_closest(self, query: Query, contacts: list[Contact], now: int) -> None:
        own_distance = self.own.key ^ query.lookup.target
        nearer = sum(contact.key ^ query.lookup.target < own_distance for contact in contacts)
        republish_at = self._republish_at(now)
        if nearer < self.settings.k and self.values.put(query.name, query.value, now, republish_at):
            self._store(query.name, query.value)
            query.copies += 1
            contacts = contacts[: self.settings.k - 1]
        message = Message(Kind.PUT_VALUE, query.name, Record(query.name, query.value))
        query.open_puts = len(contacts)
        for contact in contacts:
            self._asks.ask(contact, message, now, query=query.number, is_put=True)
        if not contacts:
            self._finish_put(query)

    def _count_put(self, query: Query, *, kept: bool) -> None:
        query.copies += kept
        query.open_puts -= 1
        if query.open_puts == 0:
            self._finish_put(query)

    def _finish_put(self, query: Query) -> None:
        del self._queries[query.number]
        self._emit(Deliver(Put(query.number, query.name, query.copies)))

    def _accept_value(self, query: Query, message: Message) -> bool:
        record = message.record
        if record is None or record.key != query.name:
            return False
        if not self.values.is_valid(query.name, record.value):
            self.refused += 1
            return False
        del self._queries[query.number]
        self._emit(Deliver(Got(query.number, query.name, record.value)))
        return True

    # --- serving ---

    def _on_ask(self, event: Asked, now: int) -> None:
        peer, message, number, addresses = event
        if not isinstance(message, Message) or not self._accepts(message):
            return
        if message.kind is Kind.PUT_VALUE:
            answer = self._answer_to_put(message, peer, now)
        else:
            answer = answer_to(message, peer, self.table, self.values, now)
        self._avoided.pop(peer, None)
        self._emit(Answer(peer, answer, number))
        self._consider(Contact.of(peer, addresses), now)

    def _answer_to_put(self, message: Message, peer: bytes, now: int) -> Message:
        republish_at = self._republish_at(now)
        answer = answer_to_put(message, peer, self.values, now, republish_at)
        if answer.record is None:
            self.refused += 1
        else:
            self._store(answer.key, answer.record.value)
        return answer

    def _store(self, name: bytes, value: bytes) -> None:
        for evicted in self.values.take_evicted():
            self._emit(Store(_STORED + evicted, None))
        self._emit(Store(_STORED + name, value))

    def _on_add_provider(self, peer: bytes, message: Message, now: int) -> None:
        # Only the provider itself may say that it provides.
        own = [contact for contact in message.providers if contact.peer == peer]
        if not own or not self.values.add_provider(message.key, own[0], now, peer):
            self.refused += 1

    def _consider(self, contact: Contact, now: int) -> None:
        """Ping a peer that has sent something, if the table has room for it."""
        if self.table.is_trusted(contact) or not self.admits(contact):
            return
        if self.table.is_crowded_out(contact):
            return
        if contact in self.table or self.table.has_room(contact.key):
            self._asks.ping(contact, now)
            return
        self.table.wait(contact)
        oldest = self.table.oldest(contact.key)
        if oldest is not None and now - oldest.heard_at >= self.settings.check_us:
            self._asks.ping(oldest.contact, now)

    def _accepts(self, message: Message) -> bool:
        acceptable = is_acceptable(message, self.settings)
        self.refused += not acceptable
        return acceptable

    # --- upkeep ---

    def _refresh(self, now: int) -> None:
        self._set_timer("refresh", self.settings.refresh_us, now)
        oldest = now - self.settings.check_us
        self.heard_us = {peer: at for peer, at in self.heard_us.items() if at > oldest}
        for contact in self.table.suspects(silent_since=now - self.settings.check_us):
            self._asks.ping(contact, now)
        self._start(Goal.REFRESH, self.own.peer, now)
        self._refresh_far_buckets(now)

    def _refresh_far_buckets(self, now: int) -> None:
        for name in names_in_far_buckets(self.own.key, self.table):
            self._start(Goal.REFRESH, name, now)

    def _upkeep(self, now: int) -> None:
        self._set_timer("upkeep", self.settings.republish_us, now)
        for name in self.values.expire(now):
            self._emit(Store(_STORED + name, None))
        # One peer may have put all of them at the same moment, for this node to send k times each.
        count_max = self.settings.republish_count_max
        due = self.values.due(now, self._republish_at(now), count_max)
        if len(due) == count_max:
            self._emit(SetTimer(("kad", "upkeep"), now + self.settings.republish_pause_us))
        for name, value in due:
            self._start(Goal.PUT, name, now, value=value)

    def _set_timer(self, name: str, interval: int, now: int) -> None:
        self._emit(SetTimer(("kad", name), now + self._jittered(interval)))

    def _republish_at(self, now: int) -> int:
        return now + self._jittered(self.settings.republish_us)

    def _jittered(self, interval: int) -> int:
        """An interval with some randomness, so that nodes do not act in step."""
        return interval * self._rng.randint(80, 120) // 100

    # --- bookkeeping ---

    def _take_number(self) -> int:
        self._last_query += 1
        return self._last_query

    def _emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def _taken(self) -> list[Effect]:
        effects = self._effects.copy()
        self._effects.clear()
        return effects
