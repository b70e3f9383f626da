"""PromQL: syntax, plan, kernels and evaluation. It knows samples and labels, and neither files nor workers."""
