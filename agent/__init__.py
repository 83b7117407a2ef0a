"""The sidecar: attaches the eBPF programs, drains rings, writes spools for its clients."""
