"""What a query says: tokens, the tree with its positions, types, and how it is printed."""
