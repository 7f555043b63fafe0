"""Predicates: from text, or an Arrow expression, to a mask over batches.

``tokenizer`` and ``parser`` give sqlglot the rules of the dialect; ``reading`` converts its expressions to the records
of ``syntax``; ``arrow_expressions`` converts Arrow expressions to the same records; ``binding`` assigns types and
builds the evaluable tree of ``expressions``; ``predicate`` is the entry point.
"""
