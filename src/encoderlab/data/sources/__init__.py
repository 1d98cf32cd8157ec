"""The datasets that have a name: built in, generated, of the Hugging Face hub, or Wikipedia."""
