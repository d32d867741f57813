"""A page reaches the component that has asked for it, once, and from the peer that was asked."""

from random import Random

from smartpubsub.kademlia.core import Kademlia
from smartpubsub.kademlia.keys import Contact
from smartpubsub.kademlia.settings import Settings
from smartpubsub.protocols.pulsarcast.messages import Fetch, Page
from smartpubsub.protocols.pulsarcast.protocol import Pulsarcast
from smartpubsub.protocols.pulsarcast.settings import PulsarSettings
from smartpubsub.sim.kernel.signing import StandInSigning

TOPIC, OTHER = b"topic", b"other topic"
PEER = b"peer"


def test_a_page_is_taken_once_from_the_peer_that_was_asked() -> None:
    own = Contact.of(b"node")
    kademlia = Kademlia(own, Settings(), Random(1))
    core = Pulsarcast(PulsarSettings(), kademlia, StandInSigning(own.peer), Random(1))
    pages, taken = core._pages, list[Page]()
    number = pages.ask(PEER, Fetch(TOPIC, 0, (), (), 0), taken.append)
    late = pages.ask(PEER, Fetch(TOPIC, 0, (), (), 0), taken.append)
    page = Page(TOPIC, number, (), False)

    assert not pages.has_asked(b"another", page)
    assert not pages.has_asked(PEER, page._replace(topic_id=OTHER))
    assert pages.has_asked(PEER, page)
    pages.on_page(page)
    assert taken == [page]
    assert not pages.has_asked(PEER, page)

    pages.cancel(late)
    pages.cancel(0)
    pages.check()
    assert not pages.has_asked(PEER, page._replace(number=late))
