"""Predicates: from text, or an Arrow expression, to a mask over batches.

``tokenizer`` and ``parser`` give sqlglot the rules of the dialect, ``reading`` turns its expressions into the records
of ``syntax``; ``arrow_expressions`` reads Arrow expressions into the same records; ``binding`` gives them types and
turns them into the evaluable tree of ``expressions``; ``predicate`` is the front.
"""
