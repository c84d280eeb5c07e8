"""Facts on devices: kernels in chains and rounds, or timed by a tuner, on several devices, in shares of time."""
