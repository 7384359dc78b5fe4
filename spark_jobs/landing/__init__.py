"""Landing: from record files to bronze, exactly once (R1), with what can't be understood aside (R2)."""
