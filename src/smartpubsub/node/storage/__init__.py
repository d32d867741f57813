"""The data folder of a node, and the values that it keeps there through crashes."""
