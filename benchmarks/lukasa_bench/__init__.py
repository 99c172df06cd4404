"""Benchmarks of Lukasa. Each compares Lukasa with a bare reference in the same run."""
