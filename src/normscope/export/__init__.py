"""Fitted models as ONNX and OpenVINO graphs, checked against the model, and read back as models."""
