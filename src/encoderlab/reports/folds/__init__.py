"""The results of a cross-validation: its report, its page, the predictions for all rows, and the labels to check."""
