"""Questions asked of an encoder: how an example becomes ids and right answers, and what a prediction means."""
