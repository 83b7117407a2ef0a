"""What PyTorch's own profiler knows: switched on, read into columns, joined to what Pillion has recorded."""
