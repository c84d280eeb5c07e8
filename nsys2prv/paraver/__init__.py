"""PRV, PCF, ROW and cfg files as Paraver reads them: writing, reading and cutting. Knows nothing of nsys."""
