"""Answers of leaves, brought together: shards merged, leaves aligned, blocks of steps streamed."""
