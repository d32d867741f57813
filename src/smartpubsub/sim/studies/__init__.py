"""Studies: ScoutSubs in the situations that its promises are about, and what each of them costs."""
