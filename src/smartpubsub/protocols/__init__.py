"""The protocols: what publishes, subscribes and delivers on the overlay."""
