"""The old names of `scoutsubs.messages`, until all imports are rewritten."""

from smartpubsub.kademlia.protobuf import WireError as WireError
from smartpubsub.protocols.scoutsubs.messages import *  # noqa: F403
