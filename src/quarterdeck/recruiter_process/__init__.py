"""The process of a recruiter by itself: it wires what the other packages have, and decides nothing itself."""
