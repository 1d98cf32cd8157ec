"""What an encoder learns to predict: how an example becomes ids and targets, and what a prediction means."""
