"""Predicates: SQL text and Arrow expressions that select the rows of a batch.

``tokenizer`` and ``parser`` define the rules of the dialect for sqlglot; ``reading`` converts sqlglot's expressions to
the records of ``syntax``; ``arrow_expressions`` converts Arrow expressions to the same records; ``binding`` assigns
types and builds the evaluable tree of ``expressions``; ``predicate`` is the entry point.
"""
