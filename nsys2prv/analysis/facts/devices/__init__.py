"""Facts on devices: kernels in order, chains and rounds of them, and the same kernel on several devices."""
