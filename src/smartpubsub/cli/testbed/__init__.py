"""smartpubsub testbed and its commands."""
