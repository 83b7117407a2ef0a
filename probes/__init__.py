"""The contract between job, agent and client: record layouts, eBPF programs."""

from pillion_probes.layout import CONSTANTS, HEADER_PATH, STRUCTS, StructLayout

__all__ = ["CONSTANTS", "HEADER_PATH", "STRUCTS", "StructLayout"]
