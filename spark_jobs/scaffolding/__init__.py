"""Scaffolding: from the shapes that bronze has seen to models, YAML and expectation suites, to be kept and edited."""
