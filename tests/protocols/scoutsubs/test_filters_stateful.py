"""A parent has the filters that its child announces, whatever happens to the messages."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from smartpubsub.predicates import Predicate
from smartpubsub.protocols.scoutsubs.inspection import TreeView
from smartpubsub.protocols.scoutsubs.membership import Role
from smartpubsub.protocols.scoutsubs.messages import Announce, Announced, Bundle, ChildCopy, Part
from smartpubsub.protocols.scoutsubs.protocol import ScoutSubs
from smartpubsub.protocols.scoutsubs.settings import ScoutSettings
from smartpubsub.seam import Effect, Received, Send, TimerFired
from tests.protocols.scoutsubs.forest import Forest

PREDICATES = [
    Predicate.parse(text)
    for text in (
        "surf",
        "surf/bali",
        "surf/price[0,5]",
        "surf/price[5,9]",
        "surf/price[2,3]",
        "surf/price[0,5]/wind[1,2]",
        "surf/price[0,5]/wind[2,4]",
    )
]
PARENT, CHILD = 0, 1
PATIENT = ScoutSettings(backups=0, tries_max=10_000)
FLUSH = TimerFired(("scout", "flush"))


class Announcements(RuleBasedStateMachine):
    """A child and a parent, and between them whatever can happen to announcements.

    What they say is carried, kept back, repeated or lost, in any order, and so are the answers;
    the child may crash and start anew. Only what is not about announcements gets through at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.forest = Forest(2, PATIENT, is_fixed=True)
        self.subscriptions: dict[int, Predicate] = {}
        self.pending: list[tuple[int, Part]] = []
        """Announcements and answers that are on their way, with their receivers."""
        self.forest.subscribed(PARENT, "surf/kite")  # So that it has a tree to remember in.
        self.clocks = [self.forest.clock(number) for number in (PARENT, CHILD)]

    # --- the two nodes ---

    def scouts(self, number: int) -> ScoutSubs:
        return self.forest.scouts(number)

    def tree(self, number: int) -> TreeView | None:
        return self.scouts(number).tree("surf")

    def known_child(self) -> ChildCopy | None:
        tree = self.tree(PARENT)
        return tree.children.get(self.forest.contacts[CHILD].peer) if tree else None

    def take(self, sender: int, effects: list[Effect]) -> None:
        """See to it that what a node says gets to the other, or into our hands."""
        self.clocks[sender] += PATIENT.batch_us
        flushed = self.scouts(sender).handle(FLUSH, self.clocks[sender])
        for effect in [*effects, *flushed]:
            if isinstance(effect, Send) and isinstance(effect.message, Bundle):
                for part in effect.message.parts:
                    if isinstance(part, Announce | Announced):
                        self.pending.append((1 - sender, part))
                    else:
                        self.hand_over(1 - sender, part)

    def hand_over(self, receiver: int, part: Part) -> None:
        sender = self.forest.contacts[1 - receiver]
        scouts = self.scouts(receiver)
        said = Received(sender.peer, Bundle((part,)), sender.addresses)
        self.take(receiver, scouts.handle(said, self.clocks[receiver]))

    # --- what happens ---

    @rule(predicate=st.sampled_from(PREDICATES))
    def subscribe(self, predicate: Predicate) -> None:
        core = self.forest.core(CHILD)
        number, effects = core.subscribe(predicate, self.clocks[CHILD])
        self.forest.do(CHILD, [e for e in effects if not isinstance(e, Send)])
        self.subscriptions[number] = predicate
        self.take(CHILD, effects)

    @precondition(lambda self: self.subscriptions)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.subscriptions)))
        del self.subscriptions[number]
        core = self.forest.core(CHILD)
        self.take(CHILD, core.unsubscribe(number, self.clocks[CHILD]))

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), is_repeated=st.booleans())
    def carry(self, data: st.DataObject, is_repeated: bool) -> None:
        index = data.draw(st.integers(0, len(self.pending) - 1))
        receiver, part = self.pending[index] if is_repeated else self.pending.pop(index)
        self.hand_over(receiver, part)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        del self.pending[data.draw(st.integers(0, len(self.pending) - 1))]

    @rule()
    def try_again(self) -> None:
        scouts = self.scouts(CHILD)
        timer = TimerFired(("scout", "announce", "surf"))
        self.take(CHILD, scouts.handle(timer, self.clocks[CHILD]))

    @rule()
    def start_anew(self) -> None:
        """The child forgets everything but its subscriptions, under new numbers here."""
        forest = self.forest
        forest.crash(CHILD)
        forest.host(CHILD).storage.clear()
        forest.restart(CHILD)
        self.clocks[CHILD] = 0
        effects = forest.core(CHILD).settle([forest.contacts[PARENT]], 0)
        self.take(CHILD, effects)
        wanted, self.subscriptions = list(self.subscriptions.values()), {}
        for predicate in wanted:
            self.subscribe(predicate)

    # --- what holds ---

    @invariant()
    def what_is_in_force_is_known_above(self) -> None:
        tree = self.tree(CHILD)
        if tree is None or not tree.version or tree.in_force < tree.version:
            return
        child = self.known_child()
        known = set(child.filters) if child else set()
        assert known == set(tree.summary)

    @invariant()
    def what_is_known_above_is_what_was_shown_in_that_version(self) -> None:
        tree, child = self.tree(CHILD), self.known_child()
        if tree is None or child is None:
            return
        incarnation = self.forest.host(CHILD).incarnation
        assert (child.incarnation, child.version) <= (incarnation, tree.version)
        if (child.incarnation, child.version) == (incarnation, tree.version):
            assert set(child.filters) == set(tree.summary)

    @invariant()
    def what_is_shown_is_what_is_wanted(self) -> None:
        tree = self.tree(CHILD)
        if tree is None:
            return
        for price in range(10):
            for event in (f"surf/price={price}", f"surf/price={price}/wind=2", "surf/bali"):
                predicate = Predicate.parse(event)
                wanted = any(wish.matches(predicate) for wish in self.subscriptions.values())
                assert any(filter.matches(predicate) for filter in tree.summary) == wanted

    def teardown(self) -> None:
        """When everything gets through at last, all is known and in force."""
        self.pending.clear()
        for _ in range(4):
            self.try_again()
            while self.pending:
                self.hand_over(*self.pending.pop(0))
        tree, child = self.tree(CHILD), self.known_child()
        if tree is not None:
            assert tree.role is Role.CHILD
            assert tree.in_force == tree.version
            assert (set(child.filters) if child else set()) == set(tree.summary)


TestAnnouncements = Announcements.TestCase
TestAnnouncements.settings = settings(max_examples=120, stateful_step_count=40)
