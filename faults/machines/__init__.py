"""Several machines on one: Linux namespaces with a network between them, on which `torchrun` runs as the docs say."""
