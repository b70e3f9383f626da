"""The search language: text to a frozen tree with the place of every node, or an error with line, column and caret."""
