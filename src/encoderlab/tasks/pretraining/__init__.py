"""What documents teach without labels: masked tokens and pairs of sentences, drawn afresh each epoch."""
