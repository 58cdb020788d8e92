"""Model files: an uploaded ONNX file becomes model costs.

The web process never parses a file. ``process`` starts a child with limits (``child``,
``limits``), which reads the file (``onnx_reader``, ``graph_checks``), computes its shapes
(``input_shapes``, ``inference``) and counts each node (``operators``, ``layers``).
"""
