"""Facts on ranks: whom others wait for, what made it late, what its host did, and whether it computes longer."""
