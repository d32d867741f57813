"""The smartpubsub command; each subcommand has a module of its own."""
