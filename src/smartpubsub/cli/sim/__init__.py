"""smartpubsub sim and its commands."""
