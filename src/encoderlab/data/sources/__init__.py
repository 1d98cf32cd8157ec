"""The named datasets: built-in, generated, from the Hugging Face hub, or Wikipedia."""
