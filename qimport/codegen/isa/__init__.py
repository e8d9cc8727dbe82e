"""Instructions that kernels are made of, each with its meaning in NumPy."""
