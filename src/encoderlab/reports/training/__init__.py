"""The report of a run that learned a task, from report.json to its page."""
