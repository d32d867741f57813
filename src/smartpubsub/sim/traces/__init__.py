"""The rows of a run, their digest, and files of them."""
