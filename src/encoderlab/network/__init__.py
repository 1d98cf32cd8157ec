"""The encoder of the paper, layer by layer, and the heads on top of it."""
