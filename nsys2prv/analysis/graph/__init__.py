"""The dependency graph of a run: instants of hosts, order of devices, edges, and ways along it."""
