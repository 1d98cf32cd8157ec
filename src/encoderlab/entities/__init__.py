"""Entities in BIO and BIOES labels: which labels have them, where they lie, how they are counted and decoded."""
