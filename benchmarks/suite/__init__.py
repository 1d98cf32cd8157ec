"""The development suite: what to expect of each way to get a model, on public data, and at what cost."""
