"""Learning from documents without labels: masked tokens and pairs of sentences, drawn again each epoch."""
