"""The pieces that every report is put together from."""
