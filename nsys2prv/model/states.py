"""Names and numbers of states, as state records have them."""

from __future__ import annotations

# Numbers of Extrae where it has the same state, so that cfgs which ask for useful (1) or idle (0) time find it.
IDLE, RUNNING, SYNCHRONIZING, CUDA_CALLING, OS_CALLING, COMMUNICATING, TRANSFERRING = 0, 1, 5, 7, 9, 13, 17
STATES = {
    IDLE: "Idle",
    RUNNING: "Running",
    SYNCHRONIZING: "CUDA synchronization",
    CUDA_CALLING: "CUDA call",
    OS_CALLING: "OS call",
    COMMUNICATING: "Communication (MPI, NCCL)",
    TRANSFERRING: "Memory transfer",
}
