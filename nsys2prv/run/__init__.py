"""All reports as one run: hosts, ranks, tasks, rows, labels, clocks, communicators and the plan."""
