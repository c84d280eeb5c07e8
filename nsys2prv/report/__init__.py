"""Opening and reading one report: formats, schema versions, who and where it ran. Knows nothing of Paraver."""
