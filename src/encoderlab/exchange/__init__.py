"""A model in other formats: Hugging Face's in both directions, ONNX, and compact storage."""
