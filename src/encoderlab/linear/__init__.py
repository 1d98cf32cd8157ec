"""Linear models of texts: n-grams, their weights, and which of them a training set is best learned from."""
