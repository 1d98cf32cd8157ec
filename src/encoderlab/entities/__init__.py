"""Entities in BIO and BIOES labels: which labels form them, and how they are located, counted and decoded."""
