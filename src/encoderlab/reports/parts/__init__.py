"""Building blocks shared by all reports."""
