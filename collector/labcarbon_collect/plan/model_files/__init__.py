"""Model files: the graph of an ONNX file without its weights."""
