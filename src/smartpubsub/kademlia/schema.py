"""The old names of `kademlia.messages`, until all imports are rewritten."""

from smartpubsub.kademlia.messages import *  # noqa: F403
from smartpubsub.kademlia.protobuf import WireError as WireError
