"""One module per captured table, written by `tidemark scaffold` and yours to edit."""
