"""The old names of `pulsarcast.messages`, until all imports are rewritten."""

from smartpubsub.kademlia.protobuf import WireError as WireError
from smartpubsub.protocols.pulsarcast.messages import *  # noqa: F403
