"""Event types, and writing and reading PRV, PCF and ROW. Knows nothing of nsys."""
