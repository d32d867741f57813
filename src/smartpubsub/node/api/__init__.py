"""What applications use: a node with its subscriptions, topics and groups."""
