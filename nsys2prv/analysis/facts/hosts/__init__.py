"""Facts on hosts: what they do while devices have nothing to do, what launches cost, and how to do with less."""
