"""Several machines on one: Linux namespaces connected by a network, on which `torchrun` runs as the docs say."""
