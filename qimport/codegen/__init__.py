"""Native code from kernel plans: targets, kernels, just-in-time and ahead-of-time back ends."""
