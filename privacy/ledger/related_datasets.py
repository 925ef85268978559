"""Datasets of one party that share a column: what was released of one tells of the other.

A dataset is known by its columns here, since its rows come and go. Dropping a column must not open a new budget, so
whatever is charged or counted by dataset is added up over all related ones.
"""

# The dataset :dataset itself and every other one that shares a column with it.
RELATED = """
    SELECT :dataset UNION SELECT other.dataset FROM dataset_column own
    JOIN dataset_column other ON other.column_name = own.column_name WHERE own.dataset = :dataset"""
