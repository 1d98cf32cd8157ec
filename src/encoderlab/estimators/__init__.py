"""scikit-learn estimators that learn from texts: a classifier and a regressor."""
