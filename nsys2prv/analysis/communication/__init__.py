"""Communication: waiting and transfer, causes of waiting, overlap, contention, pipelines."""
