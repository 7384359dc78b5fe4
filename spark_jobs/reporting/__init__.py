"""What people read about a run: the accounting (G6), the findings and the report."""
