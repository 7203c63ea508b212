"""Encoders: image → Features(code, local map)."""
