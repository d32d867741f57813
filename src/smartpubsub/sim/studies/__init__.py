"""Studies of ScoutSubs: whether its promises hold in hard situations, and what they cost."""
