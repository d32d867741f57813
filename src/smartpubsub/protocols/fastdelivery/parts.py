"""The old names of `fastdelivery.messages`, until all imports are rewritten."""

from smartpubsub.kademlia.protobuf import WireError as WireError
from smartpubsub.protocols.fastdelivery.messages import *  # noqa: F403
