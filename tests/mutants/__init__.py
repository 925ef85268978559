"""`make mutants`: small faults planted into the product one by one, each with the test that must fail of it.

A mutant is named by its symbol and by a piece of its source, so that it moves with the code; it is planted where a module
is imported (`planting`), so that no file changes. `planted` holds them by component.
"""
