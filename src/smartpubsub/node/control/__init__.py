"""How a running node serves the programs of its user, and what it reports about itself."""
