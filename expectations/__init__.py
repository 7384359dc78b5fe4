"""What the data must hold: the laws of the contract as Great Expectations suites, and the run over them."""

import os

# Great Expectations reads this when it is imported, so it stands before every import of it: nothing here calls out.
os.environ["GX_ANALYTICS_ENABLED"] = "false"
