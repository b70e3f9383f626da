"""The search language: from text to a frozen tree that knows the place of every node, or to an error with line, column
and caret."""
