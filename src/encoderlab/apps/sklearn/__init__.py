"""scikit-learn's estimators that learn from texts."""
