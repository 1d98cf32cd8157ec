"""Everything a run does between its settings and its report."""
