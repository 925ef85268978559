"""What tests and benchmarks share: parties as threads and processes of one machine, over FATE's own federation."""
