"""What a cross-validation leaves behind: its report, its page, the answers to all rows, and the labels to check."""
