"""Studies: whether the promises of protocols hold in hard situations, and their cost."""
