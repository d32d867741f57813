"""ScoutSubs: content-based routing over Kademlia rendezvous, with nobody in the middle.

An event's journey: the publisher raises a copy of it to the rendezvous of each attribute
(`raising`), which takes it into its care and has it recorded (`admitting`) and sends it down a tree
of filters (`spreading`). The tree is what subscriptions have left on their way up (`announcing`),
along hops that are agreed on by lookup (`seeking`); it is kept in copies (`copying`), and whoever
matters is watched (`probing`).
"""
