"""The encoder of the paper, layer by layer, and the heads that stand on it."""
