"""The workers that run the maps (inline, pool, Dask), and the resources that they share."""
