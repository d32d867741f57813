"""The book keeps all limits, whatever happens to members and in which order peers answer."""

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from smartpubsub.kademlia.keys import Contact
from smartpubsub.predicates import Predicate
from smartpubsub.protocols.fastdelivery.book import (
    AskToHelp,
    Book,
    Delegation,
    HandOver,
    MemberState,
    Order,
    Overload,
    Serve,
    TakeBack,
    TurnAway,
)
from smartpubsub.protocols.fastdelivery.settings import FastSettings

SETTINGS = FastSettings(direct_max=3, pool=1, fan_out_max=8, decline_us=100)
WANTED = st.sampled_from([(Predicate.parse("surf"),), (Predicate.parse("kite"),)])
PEERS = st.sampled_from([b"peer %02d" % number for number in range(14)])
REGIONS = st.sampled_from(["north", "south"])


class Arrangement(RuleBasedStateMachine):
    """A book whose orders are carried out late, in any order, with any outcome."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.book = Book(SETTINGS, lambda: self.now)
        self.open: deque[tuple[int, Order, dict[bytes, tuple[Predicate, ...]]]] = deque()
        """Pending orders: the version, the order, and its members' interest."""
        self.version = 0
        self.known: dict[tuple[bytes, int], dict[bytes, tuple[int, tuple[Predicate, ...]]]] = {}
        """By helper and term: the version and interest of each member it was told of."""
        self.told: dict[bytes, bool] = {}
        """Whether each member has been told that it is served."""
        self.overloads: set[str] = set()

    def take(self) -> None:
        for order in self.book.take_orders():
            match order:
                case Serve(peer):
                    assert self.book.members[peer].state not in (
                        MemberState.WAITING,
                        MemberState.SILENT,
                    )
                    self.told[peer] = True
                case TurnAway(peer):
                    assert self.book.fan_out == SETTINGS.fan_out_max
                    assert not self.told.pop(peer)
                case Overload(region, served):
                    assert served > SETTINGS.direct_max
                    self.overloads.add(region)
                case _:
                    self.version += 1
                    about = getattr(order, "peers", ())
                    wanted = {peer: self.book.members[peer].predicates for peer in about}
                    self.open.append((self.version, order, wanted))

    # --- members ---

    @rule(peer=PEERS, wanted=WANTED, region=REGIONS, capacity=st.integers(0, 4))
    def put(self, peer: bytes, wanted: tuple[Predicate, ...], region: str, capacity: int) -> None:
        self.told.setdefault(peer, False)
        if peer in self.book.members and self.book.members[peer].region != region:
            self.told[peer] = False  # It has no place in its new region yet.
        self.book.put(Contact.of(peer), wanted, region, capacity)
        self.take()

    @rule(peer=PEERS)
    def remove(self, peer: bytes) -> None:
        self.book.remove(peer)
        self.told.pop(peer, None)
        self.take()

    @rule(peer=PEERS)
    def silent(self, peer: bytes) -> None:
        self.book.silent(peer)
        self.take()

    @rule(peer=PEERS)
    def heard(self, peer: bytes) -> None:
        self.book.heard(peer)
        self.take()

    @rule(peer=PEERS, is_answering=st.booleans())
    def is_not_reached_by_its_helper(self, peer: bytes, is_answering: bool) -> None:
        member = self.book.members.get(peer)
        if member is not None and member.state is MemberState.DELEGATED:
            helper = member.helper
            assert helper is not None
            self.book.unreached(peer, helper)
            self.book.silent(peer)
            if is_answering:
                self.book.heard(peer)
            else:
                self.book.excuse(peer, helper)
            self.take()

    @rule(peer=PEERS)
    def complains(self, peer: bytes) -> None:
        self.book.complain(peer)
        self.take()

    @rule(peer=PEERS)
    def forgets_that_it_helps(self, peer: bytes) -> None:
        member = self.book.members.get(peer)
        if member is not None:
            self.book.not_helping(peer, member.term)
            self.take()

    @rule(us=st.integers(1, 200))
    def wait(self, us: int) -> None:
        self.now += us
        self.book.settle()
        self.take()

    # --- what comes of orders ---

    @precondition(lambda self: self.open)
    @rule(place=st.integers(0, 100), granted=st.integers(0, 6))
    def carry_out(self, place: int, granted: int) -> None:
        self.open.rotate(place)
        version, order, wanted = self.open.popleft()
        match order:
            case AskToHelp(peer, term, count):
                self.book.agreed(peer, term, min(granted, count))
            case HandOver(helper, term):
                known = self.known.setdefault((helper, term), {})
                for peer, predicates in wanted.items():
                    if known.get(peer, (0,))[0] < version:
                        known[peer] = (version, predicates)
                self.book.handed_over(helper, term, wanted)
        self.take()

    # --- what always holds ---

    @invariant()
    def every_member_is_served_once_within_all_limits(self) -> None:
        self.book.check()

    @invariant()
    def a_region_is_served_directly_beyond_its_limit_only_if_the_publisher_is_told(self) -> None:
        for region in self.book.regions.values():
            if region.direct_count > SETTINGS.direct_max:
                assert region.is_overloaded
                assert region.name in self.overloads

    @invariant()
    def waiting_members_wait_for_an_answer_or_a_place(self) -> None:
        for region in self.book.regions.values():
            for member in region.unserved:
                is_full = self.book.fan_out == SETTINGS.fan_out_max
                leaving = [
                    m for m in region.at(MemberState.DIRECT) if m.delegation is Delegation.OFFERED
                ]
                assert region.asked is not None or leaving or (is_full and member.was_served)

    @invariant()
    def no_helper_is_offered_a_member_that_it_did_not_reach(self) -> None:
        for member in self.book.members.values():
            assert member.helper not in member.unreached_by

    @invariant()
    def offered_members_are_in_an_order_to_their_helper(self) -> None:
        for member in self.book.members.values():
            if member.delegation is Delegation.OFFERED:
                told = [order for _, order, wanted in self.open if member.peer in wanted]
                assert any(getattr(o, "helper", None) == member.helper for o in told)

    @invariant()
    def helpers_know_the_interest_of_delegated_members_or_are_being_told(self) -> None:
        for member in self.book.members.values():
            if member.delegation is not Delegation.ACCEPTED:
                continue
            assert member.helper is not None
            helper = self.book.members[member.helper]
            _, known = self.known[helper.peer, helper.term][member.peer]
            is_being_told = any(member.peer in wanted for _, _, wanted in self.open)
            assert known == member.predicates or is_being_told

    @invariant()
    def members_that_were_taken_back_are_not_delegated(self) -> None:
        for _, order, _ in self.open:
            if isinstance(order, TakeBack) and order.helper in self.book.members:
                member = self.book.members.get(order.peer)
                helper = self.book.members[order.helper]
                if member is None and helper.term == order.term:
                    assert order.peer not in helper.delegated


TestArrangement = Arrangement.TestCase
TestArrangement.settings = settings(max_examples=80, stateful_step_count=60, deadline=None)
