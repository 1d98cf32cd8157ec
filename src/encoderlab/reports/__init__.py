"""What is shown and written of a run: tables and plots described once, printed on screen and written as pages."""
