"""Landing: from record files to bronze, exactly once (R1), or to the quarantine (R2)."""
