"""Which texts to label next, and labelling them in the browser."""
