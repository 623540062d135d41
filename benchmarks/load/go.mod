module aggserver.dev/benchmarks/load

go 1.25
